"""Protocol adapters: pure, without input or output."""
