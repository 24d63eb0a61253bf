"""The immutable submission: accepting, showing, repeating and retrying it."""

from relay.feedback.routes import CURSORS, OWNERS, SUBMISSIONS, SUBMITTING, TARGETS, routes

__all__ = ["CURSORS", "OWNERS", "SUBMISSIONS", "SUBMITTING", "TARGETS", "routes"]
