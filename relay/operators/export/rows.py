"""A submission as one flat row: its columns, in the order in which files have them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from relay.operators.submissions.model import Attempt, Submission

Kind = Literal["text", "number", "instant"]


@dataclass(frozen=True, slots=True)
class Column:
    """``value`` gives None where a submission has nothing of it. An instant is in milliseconds since the epoch."""

    name: str
    kind: Kind
    value: Callable[[Submission], Any]


def _of_last(value: Callable[[Attempt], Any]) -> Callable[[Submission], Any]:
    return lambda submission: None if submission.last_attempt is None else value(submission.last_attempt)


COLUMNS: Final = (
    Column("owner", "text", lambda s: s.owner),
    Column("client", "text", lambda s: s.client),
    Column("id", "text", lambda s: s.id),
    Column("agent", "text", lambda s: s.agent),
    Column("taskId", "text", lambda s: s.task),
    Column("ranAs", "text", lambda s: s.ran_as),
    Column("rating", "text", lambda s: s.rating),
    Column("comment", "text", lambda s: s.comment),
    Column("createdAt", "instant", lambda s: s.created_at),
    Column("erasedAt", "instant", lambda s: s.erased_at),
    Column("state", "text", lambda s: s.state),
    Column("stateSince", "instant", lambda s: s.state_since),
    Column("nextAttemptAt", "instant", lambda s: s.next_attempt_at),
    Column("savedAt", "instant", lambda s: s.saved_at),
    Column("attemptCount", "number", lambda s: s.attempt_count),
    Column("lastAttemptAt", "instant", _of_last(lambda a: a.at)),
    Column("lastAttemptOutcome", "text", _of_last(lambda a: a.outcome)),
    Column("lastAttemptReason", "text", _of_last(lambda a: a.reason)),
    Column("lastAttemptStatus", "number", _of_last(lambda a: a.status)),
    Column("abandonedBy", "text", lambda s: s.abandoned_by),
    Column("abandonedWhy", "text", lambda s: s.abandoned_why),
    Column("evidence", "text", lambda s: s.evidence),
    Column("evidenceAt", "instant", lambda s: s.evidence_at),
    Column("resolution", "text", lambda s: s.resolution),
)
"""The owner is the opaque key: no file has a subject."""
