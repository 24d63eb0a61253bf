"""The states of a delivery, what a claim holds, and what came of an attempt. Pure."""

import itertools
import secrets
from dataclasses import dataclass, field
from typing import Literal, NewType

from registry.model import AgentId, RanAs, Version
from registry.protocols.contract import Rated, Rating
from relay.identity.model import OwnerId

DeliveryId = NewType("DeliveryId", int)

State = Literal["pending", "sending", "saved", "rejected", "conflict", "exhausted", "held", "needs_owner", "abandoned"]
FINAL: frozenset[State] = frozenset({"saved", "rejected", "conflict", "exhausted", "abandoned"})

Cause = Literal["accept", "schedule", "repeat", "retry", "sign_in", "reconcile"]
"""Why an attempt is made. The first two advance the schedule; the next three are the owner's, and do not. The last is
no attempt to deliver: reading back what the specialist keeps came to a conflict."""

Evidence = Literal["unchecked", "confirmed", "missing", "mismatch", "out_of_window"]
"""What reading back says of a delivery. ``confirmed``: the specialist keeps exactly this submission. ``missing``: it
lists everything, and not this one. ``mismatch``: it keeps the UUID with other content, or for another task.
``out_of_window``: it has so many newer ones that this one is not listed."""

SCHEDULED: frozenset[Cause] = frozenset({"accept", "schedule"})

End = Literal["saved", "rejected", "conflict", "retry", "lost", "released"]
"""What an attempt ended in. ``lost``: its lease ran out without a word. ``released``: it was given back unsent, or cut
off by a shutdown."""


_PROCESS = secrets.token_hex(12)
_numbers = itertools.count()


def claim_token() -> str:
    """A token that no other claim has: it fences, it proves nothing, so it need not be secret."""
    return f"{_PROCESS}{next(_numbers):x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to settle one delivery. ``token`` fences it: a settle under another token changes nothing.

    ``position`` counts the scheduled attempts of this window, this one included. ``pinned`` is the version of the
    agent's registration that the task was recorded under.
    """

    delivery: DeliveryId
    token: str = field(repr=False)
    number: int
    cause: Cause
    position: int
    agent: AgentId
    tenant: str
    pinned: Version

    @property
    def advances(self) -> bool:
        return self.cause in SCHEDULED


@dataclass(frozen=True, slots=True, kw_only=True)
class Behalf:
    """On whose behalf the relay speaks to a specialist, and about which submission."""

    owner: OwnerId
    ran_as: RanAs
    submission: str
    task: str
    sha256: str
    trace_context: str | None = None
    live_token: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A delivery that this process may attempt until its lease ends, with all that an attempt needs.

    ``window_ms`` is the age of the schedule's window at the claim. ``claimed_at`` is on the monotonic clock, read
    before the claim was asked for, so that a slow database never makes a lease look longer than it is.
    """

    claim: Claim
    window_ms: int
    claimed_at: float
    owner: OwnerId
    submission: str
    task: str
    rating: Rating
    comment: str | None = field(repr=False)
    payload: bytes = field(repr=False)
    sha256: str
    ran_as: RanAs
    protocol: str
    trace_context: str | None
    live_token: str | None = field(default=None, repr=False)
    """The owner's own token, where the owner is here; in memory only, and never sent but to be exchanged."""

    @property
    def rated(self) -> Rated:
        return Rated(self.submission, self.task, self.rating, self.comment)

    @property
    def behalf(self) -> Behalf:
        return Behalf(
            owner=self.owner,
            ran_as=self.ran_as,
            submission=self.submission,
            task=self.task,
            sha256=self.sha256,
            trace_context=self.trace_context,
            live_token=self.live_token,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one attempt, before the schedule and the registry have their say.

    ``phase`` is how far the exchange got (None: nothing was sent and nothing is logged). ``retry_after_ms`` is the
    specialist's floor. ``pauses_agent`` says that the floor is the agent's, not this submission's alone.
    ``unhealthy`` counts against the agent's breaker.
    """

    end: End
    reason: str | None = None
    status: int | None = None
    phase: str | None = None
    ambiguous: bool = False
    excerpt: str | None = field(default=None, repr=False)
    duration_ms: int = 0
    registration: Version | None = None
    retry_after_ms: int = 0
    pauses_agent: bool = False
    unhealthy: bool = False
    needs_presence: bool | None = None
    """What the attempt found out about whether the owner has to be present; None: nothing new."""

    @property
    def is_unmatched(self) -> bool:
        """Whether the specialist answered as if it had taken something in, and acknowledged nothing of ours."""
        return self.end != "saved" and self.status is not None and 200 <= self.status < 300  # noqa: PLR2004 - 2xx


@dataclass(frozen=True, slots=True)
class Settlement:
    """One outcome under the claim that it came from."""

    claim: Claim
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Settled:
    """What a settle did: the state that the delivery took; None: it changed nothing, since the claim was not valid any
    more.
    """

    state: State | None
