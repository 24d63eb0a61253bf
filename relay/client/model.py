"""What is sent and what comes back. Answers may grow: unknown fields and unknown words of a list are fine."""

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct
from typing_extensions import override

Item = TypeVar("Item")

FINAL = frozenset({"saved", "rejected", "conflict", "exhausted", "abandoned"})
"""The states that a submission does not leave by itself."""


class Evidence(Struct, frozen=True):
    """Something that a run used or made, by the specialist's own names."""

    kind: str
    id: str


class Provenance(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is recorded of a specialist's task. ``subject`` is the person a machine client records it for."""

    conversation_id: str
    answer_id: str
    role: Literal["specialist", "coordinator"]
    status: Literal["running", "completed", "failed", "canceled"]
    ran_as: Literal["owner", "client"] | None = None
    parent_task_id: str | None = None
    run_id: str | None = None
    subject: str | None = None
    subject_issuer: str | None = None
    evidence: list[Evidence] = []

    @override
    def __repr__(self) -> str:
        return f"Provenance(answer_id={self.answer_id!r}, role={self.role!r}, status={self.status!r})"


class RecordedTask(Struct, frozen=True, kw_only=True, rename="camel"):
    """A record of provenance as it stands."""

    agent: str
    task_id: str
    conversation_id: str
    answer_id: str
    role: str
    status: str
    ran_as: str
    registration_version: int
    created_at: str
    parent_task_id: str | None = None
    run_id: str | None = None
    evidence: list[Evidence] = []
    finished_at: str | None = None


class Attempt(Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest attempt. ``ambiguous``: the specialist may have received it although it did not say so."""

    number: int
    cause: str
    at: str
    outcome: str
    reason: str | None = None
    status: int | None = None
    ambiguous: bool = False


class Submission(Struct, frozen=True, kw_only=True, rename="camel"):
    """A rating on its way, or arrived. Only ``saved`` says that the specialist acknowledged it."""

    id: str
    saved: bool
    state: str
    agent: str
    task_id: str
    created_at: str
    rating: str | None = None
    comment: str | None = None
    saved_at: str | None = None
    next_attempt_at: str | None = None
    last_attempt: Attempt | None = None
    evidence: str = "unchecked"
    evidence_at: str | None = None
    resolution: str | None = None
    run_id: str | None = None
    erased_at: str | None = None

    @property
    def final(self) -> bool:
        """Whether nothing more happens to it by itself."""
        return self.state in FINAL or self.erased_at is not None

    @override
    def __repr__(self) -> str:
        return f"Submission(id={self.id!r}, state={self.state!r}, agent={self.agent!r}, task_id={self.task_id!r})"


class Target(Struct, frozen=True, kw_only=True, rename="camel"):
    """One specialist behind an answer. ``reason`` is the code with which a rating would be refused now."""

    agent: str
    agent_name: str
    task_id: str
    status: str
    rateable: bool
    reason: str | None = None
    submission: Submission | None = None


class AnswerTargets(Struct, frozen=True, kw_only=True, rename="camel"):
    """What may be rated of one answer. ``retention_days`` None: ratings are kept until somebody has them erased."""

    answer_id: str
    explicit_target_required: bool
    targets: list[Target]
    owner_key: str = ""
    retention_days: int | None = None


class Page(Struct, Generic[Item], frozen=True):
    """A part of a list; ``next`` is the cursor of the following one."""

    items: list[Item]
    next: str | None = None


class Change(Struct, frozen=True):
    """A submission as it stands after a change. ``id`` is where to resume the events after this one."""

    id: str
    submission: Submission


class Resync(Struct, frozen=True):
    """What happened before is not told: list now. The events go on from here."""

    id: str


class FieldError(Struct, frozen=True):
    """What is wrong with one field of a request, which ``pointer`` (RFC 6901) names."""

    pointer: str
    detail: str


class Problem(Struct, frozen=True):
    """The members of a problem document (RFC 9457) that every refusal of the relay has."""

    code: str
    status: int
    detail: str = ""
    title: str = ""
    errors: list[FieldError] = []


PROBLEM_MEMBERS = frozenset({*Problem.__struct_fields__, "type", "instance"})


def extras_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """What a problem document says beyond that, such as ``targets``, ``existing`` or ``state``."""
    return {name: value for name, value in document.items() if name not in PROBLEM_MEMBERS}
