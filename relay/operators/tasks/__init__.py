"""Recorded tasks that somebody should look at: contested ones, and those that run for too long."""
