"""Submissions of several owners and tenants, as they are searched."""

from tests.operators.submissions.conftest import desk, outbox

__all__ = ["desk", "outbox"]
