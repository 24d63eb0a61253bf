"""What is recorded of a specialist task, and which later word about it may change what. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from registry.model import RanAs

Role = Literal["specialist", "coordinator"]
Status = Literal["running", "completed", "failed", "canceled"]

MOST_EVIDENCE = 100


@dataclass(frozen=True, slots=True, order=True)
class Evidence:
    """Something the run used or made, such as a tool call; ids are the specialist's own."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is said of one specialist task. ``ran_as`` None leaves it as it stands ("owner" the first time)."""

    conversation: str
    answer: str
    role: Role
    status: Status
    ran_as: RanAs | None = None
    parent: str | None = None
    run: str | None = None
    evidence: frozenset[Evidence] = frozenset()


class ConflictError(ValueError):
    """The record says otherwise already; ``fields`` are the members of the body that disagree."""

    def __init__(self, fields: Sequence[str]) -> None:
        super().__init__(", ".join(fields))
        self.fields = tuple(fields)


class TooMuchEvidenceError(ValueError):
    """More evidence than a record may hold."""


def merge(stored: Task, said: Task) -> Task:
    """The record after one more word about it; equal to ``stored`` where nothing changes.

    Conversation, answer, role, ranAs and parent never change; parent and run may be set once, later; the status goes
    from running to one terminal value and never back; evidence only grows.
    """
    fields = [
        name
        for name, before, now in (
            ("conversationId", stored.conversation, said.conversation),
            ("answerId", stored.answer, said.answer),
            ("role", stored.role, said.role),
            ("ranAs", stored.ran_as, said.ran_as or stored.ran_as),
            ("parentTaskId", stored.parent, said.parent if stored.parent and said.parent else stored.parent),
            ("runId", stored.run, said.run if stored.run and said.run else stored.run),
        )
        if before != now
    ]
    if stored.status not in ("running", said.status):
        fields.append("status")
    if fields:
        raise ConflictError(fields)
    evidence = stored.evidence | said.evidence
    if len(evidence) > MOST_EVIDENCE:
        raise TooMuchEvidenceError
    return replace(
        stored,
        status=said.status,
        parent=stored.parent or said.parent,
        run=stored.run or said.run,
        evidence=evidence,
    )
