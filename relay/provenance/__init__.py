"""Which specialist tasks an answer came from, and who owns them."""
