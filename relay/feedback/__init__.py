"""The immutable submission: accepting, showing, repeating and retrying it."""

from relay.feedback.routes import CLOCK, CURSORS, FEED, OWNERS, SUBMISSIONS, SUBMITTING, TARGETS, routes

__all__ = ["CLOCK", "CURSORS", "FEED", "OWNERS", "SUBMISSIONS", "SUBMITTING", "TARGETS", "routes"]
