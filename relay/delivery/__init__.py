"""The outbox: claim, attempt, settle."""
