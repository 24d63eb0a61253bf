"""The submission and what becomes of an offer to store one. Pure."""

from dataclasses import dataclass, field
from typing import Literal

from registry.model import AgentId, Obstacle, RanAs, Version
from registry.protocols.contract import Rating
from relay.delivery.model import Cause, DeliveryId, End, Evidence, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A rating as its owner offers it. ``agent`` None: the one specialist that the task id names."""

    id: str
    task: str
    rating: Rating
    comment: str | None = field(repr=False)
    agent: AgentId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAttempt:
    """The newest attempt at a delivery, as its owner may see it. Times in milliseconds."""

    number: int
    cause: Cause
    at: int
    outcome: End
    reason: str | None
    status: int | None
    ambiguous: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A stored submission with the state of its delivery. Times in milliseconds, ``rating`` None once erased.

    ``evidence`` and ``resolution`` come from reading back what the specialist keeps, ``run`` from provenance.
    """

    seq: int
    tenant: str
    pinned: Version
    delivery: DeliveryId
    id: str
    agent: AgentId
    task: str
    ran_as: RanAs
    rating: Rating | None
    comment: str | None = field(repr=False)
    created_at: int
    erased_at: int | None
    state: State
    due_at: int
    saved_at: int | None
    evidence: Evidence
    evidence_at: int | None
    resolution: str | None = field(repr=False)
    run: str | None
    last_attempt: LastAttempt | None

    @property
    def next_attempt_at(self) -> int | None:
        """When the next attempt is due; None where none is planned or one is under way."""
        return self.due_at if self.state == "pending" else None


def is_repeat(offer: Offer, stored: Submission) -> bool:
    """Whether the offer is the stored submission once more: agent (named or found), task, rating and comment."""
    if offer.agent not in (None, stored.agent):
        return False
    return (offer.task, offer.rating, offer.comment) == (stored.task, stored.rating, stored.comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What was stored of an offer just now. Times in milliseconds."""

    seq: int
    delivery: DeliveryId
    state: State
    agent: AgentId
    ran_as: RanAs
    pinned: Version
    run: str | None
    created_at: int
    due_at: int

    def submission(self, offer: Offer, tenant: str) -> Submission:
        """As reading it would show it."""
        return Submission(
            seq=self.seq,
            tenant=tenant,
            pinned=self.pinned,
            delivery=self.delivery,
            id=offer.id,
            agent=self.agent,
            task=offer.task,
            ran_as=self.ran_as,
            rating=offer.rating,
            comment=offer.comment,
            created_at=self.created_at,
            erased_at=None,
            state=self.state,
            due_at=self.due_at,
            saved_at=None,
            evidence="unchecked",
            evidence_at=None,
            resolution=None,
            run=self.run,
            last_attempt=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the database knows that bears on an offer, from one statement.

    ``known``: the submission under this owner and UUID. ``named``: under how many agents the task id stands, and
    ``specialists`` under how many as a specialist's. ``taken``: the submission of the one task. ``fresh``: the registry
    is as it was when ``obstacle`` was judged. ``stored``: what was stored now.
    """

    known: int | None = None
    named: int = 0
    specialists: int = 0
    agent: AgentId | None = None
    status: str | None = None
    taken: int | None = None
    fresh: bool = False
    obstacle: Obstacle | Literal["subject_not_sealed"] | None = None
    stored: Stored | None = None


Verdict = (
    Literal[
        "stored",
        "known",
        "taken",
        "task_not_found",
        "explicit_target_required",
        "coordinator_task",
        "task_not_finished",
        "registry_changed",
        "subject_not_sealed",
        "raced",
    ]
    | Obstacle
)


def judge(facts: Facts) -> Verdict:  # noqa: PLR0911 - one return for each row of the contract, in its order
    """What became of an offer. The UUID comes first: a repeat is answered from what is stored, whatever has happened
    to provenance or approval since.
    """
    if facts.known is not None:
        return "known"
    if facts.stored is not None:
        return "stored"
    if facts.named == 0:
        return "task_not_found"
    if facts.specialists == 0:
        return "coordinator_task"
    if facts.named > 1:
        return "explicit_target_required"
    if facts.taken is not None:
        return "taken"
    return _judge_target(facts)


def _judge_target(facts: Facts) -> Verdict:
    if facts.status == "running":
        return "task_not_finished"
    if not facts.fresh:
        return "registry_changed"
    if facts.obstacle is not None:
        return facts.obstacle
    return "raced"  # nothing stood in the way, so another writer must have
