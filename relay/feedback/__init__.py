"""The immutable submission."""
