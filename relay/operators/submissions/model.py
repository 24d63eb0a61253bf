"""A submission with its story, as an operator sees it, and what may be done about it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, assert_never

from registry.model import AgentId, RanAs, Version
from registry.protocols.contract import Rating
from relay.delivery.model import Cause, DeliveryId, End, Evidence, State
from relay.provenance.model import Evidence as RunEvidence
from relay.provenance.model import Role, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try at a delivery, as logged. Times in milliseconds. ``excerpt`` is the redacted beginning of the answer."""

    number: int
    cause: Cause
    registration_version: Version | None
    at: int
    duration_ms: int | None
    phase: str | None
    outcome: End
    reason: str | None
    status: int | None
    ambiguous: bool
    excerpt: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submission with its delivery. Times in milliseconds; ``owner`` is the owner key, rating None once erased."""

    seq: int
    delivery: DeliveryId
    owner: str
    client: str
    id: str
    agent: AgentId
    task: str
    ran_as: RanAs
    rating: Rating | None
    comment: str | None = field(repr=False)
    created_at: int
    erased_at: int | None
    state: State
    state_since: int
    due_at: int
    not_before: int
    saved_at: int | None
    attempt_count: int
    abandoned_by: str | None
    abandoned_why: str | None
    evidence: Evidence
    evidence_at: int | None
    resolution: str | None
    last_attempt: Attempt | None

    @property
    def next_attempt_at(self) -> int | None:
        """When the next attempt is due; None where none is planned or one is under way."""
        return self.due_at if self.state == "pending" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The task that was rated, as recorded. Times in milliseconds."""

    recorded_by: str
    conversation: str
    answer: str
    role: Role
    status: Status
    ran_as: RanAs
    registration_version: Version
    parent: str | None
    run: str | None
    created_at: int
    finished_at: int | None
    evidence: Sequence[RunEvidence]


ObstacleKind = Literal["held", "needs_owner", "retry_after", "agent_paused", "breaker_open"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a waiting delivery from being sent at once; ``until`` in milliseconds where that is known."""

    kind: ObstacleKind
    until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """What holds back an agent, and the database's time at which it was looked at; all in milliseconds."""

    now: int
    paused_until: int | None
    open_until: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One submission with all that is known of it. ``attempts`` are the newest, oldest of them first."""

    submission: Submission
    provenance: Provenance | None
    attempts: Sequence[Attempt]
    obstacles: Sequence[Obstacle]


def obstacles(submission: Submission, pauses: Pauses) -> list[Obstacle]:
    """What stands in the way of a delivery that waits."""
    if submission.state not in {"pending", "held", "needs_owner"}:
        return []
    found: list[Obstacle] = []
    if submission.state == "held":
        found.append(Obstacle("held", None))
    if submission.state == "needs_owner":
        found.append(Obstacle("needs_owner", None))
    if submission.not_before > pauses.now:
        found.append(Obstacle("retry_after", submission.not_before))
    if pauses.paused_until is not None and pauses.paused_until > pauses.now:
        found.append(Obstacle("agent_paused", pauses.paused_until))
    if pauses.open_until is not None:
        # After this time one probe goes out; the breaker stays open until it has succeeded.
        found.append(Obstacle("breaker_open", pauses.open_until))
    return found


Action = Literal["retry", "abandon"]

Outcome = Literal[
    "reopened",
    "made_due",
    "already_due",
    "abandoned",
    "being_sent",
    "not_retryable",
    "not_abandonable",
    "changed_meanwhile",
    "erased",
]
"""What an action did to one delivery. The first two and ``abandoned`` changed it; no other did.

``changed_meanwhile``: it was chosen by its state, and is in another one now.
"""

CHANGING: frozenset[Outcome] = frozenset({"reopened", "made_due", "abandoned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What an action decides by. ``waits_longer``: the delivery is due later than it has to be."""

    state: State
    erased: bool
    waits_longer: bool


def judge(action: Action, standing: Standing, *, only: State | None = None) -> Outcome:
    """What an action does to a delivery that stands so; ``only``: the state that it has to be in."""
    if only not in (None, standing.state):
        return "changed_meanwhile"
    if standing.erased:
        return "erased"
    if standing.state == "sending":
        return "being_sent"
    match action:
        case "retry":
            return _judge_retry(standing)
        case "abandon":
            return "abandoned" if standing.state in {"pending", "held", "needs_owner"} else "not_abandonable"
        case _:
            assert_never(action)


def _judge_retry(standing: Standing) -> Outcome:
    match standing.state:
        case "rejected" | "exhausted" | "abandoned":
            return "reopened"
        case "pending" | "held" | "needs_owner":
            return "made_due" if standing.waits_longer else "already_due"
        case _:
            return "not_retryable"
