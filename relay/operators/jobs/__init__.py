"""Work on many submissions that an operator asked for: rows that survive a restart."""
