"""Provenance at the edge."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from registry.model import RanAs
from relay.clock import rfc3339
from relay.http.identifiers import Identifier, Moment
from relay.provenance.model import MOST_EVIDENCE, Evidence, Role, Status, Task
from relay.provenance.store import Recorded


class EvidenceItem(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the run used or made; both names are the specialist's own."""

    kind: Identifier
    id: Identifier


class TaskBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What is said of one task. ``subject`` names the human that a machine client acts for."""

    conversation_id: Identifier
    answer_id: Identifier
    role: Role
    status: Status
    ran_as: Literal["owner", "client"] | None = None
    parent_task_id: Identifier | None = None
    run_id: Identifier | None = None
    subject: Identifier | None = None
    subject_issuer: Identifier | None = None
    evidence: Annotated[list[EvidenceItem], Meta(max_length=MOST_EVIDENCE)] = []

    def task(self, ran_as: RanAs | None) -> Task:
        return Task(
            conversation=self.conversation_id,
            answer=self.answer_id,
            role=self.role,
            status=self.status,
            ran_as=ran_as,
            parent=self.parent_task_id,
            run=self.run_id,
            evidence=frozenset(Evidence(e.kind, e.id) for e in self.evidence),
        )


class TaskShown(Struct, frozen=True, rename="camel"):
    """A record of provenance as it stands."""

    agent: str
    task_id: str
    conversation_id: str
    answer_id: str
    role: Role
    status: Status
    ran_as: RanAs
    parent_task_id: str | None
    run_id: str | None
    evidence: list[EvidenceItem]
    registration_version: int
    created_at: Moment
    finished_at: Moment | None


def shown(recorded: Recorded) -> TaskShown:
    task = recorded.task
    return TaskShown(
        agent=recorded.agent,
        task_id=recorded.task_id,
        conversation_id=task.conversation,
        answer_id=task.answer,
        role=task.role,
        status=task.status,
        ran_as=task.ran_as or "owner",
        parent_task_id=task.parent,
        run_id=task.run,
        evidence=[EvidenceItem(e.kind, e.id) for e in sorted(task.evidence)],
        registration_version=recorded.version,
        created_at=rfc3339(recorded.created_at),
        finished_at=None if recorded.finished_at is None else rfc3339(recorded.finished_at),
    )
