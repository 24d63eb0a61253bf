"""The verdict on a run: what callers were told, what the relay has on record, and what the specialist really holds,
held against each other. Pure, so that each finding can be shown to be found.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

WAITING = frozenset({"pending", "sending", "held", "needs_owner"})
"""States in which the relay itself says that the rating has yet to be delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One submission as the relay's database has it.

    ``overdue`` says that its lease, or else its due time, is over for longer than any live relay would take.
    """

    id: str
    task: str
    state: str
    payload: bytes
    attempts: int = 1
    overdue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An answer of 5xx that a caller got."""

    status: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that is known after a run, each from whoever knows it first-hand."""

    accepted: frozenset[str]
    """From the callers: the UUIDs that were answered with a 2xx."""
    refused: Sequence[Refused] = ()
    """From the callers: every 5xx."""
    excused: frozenset[str] = frozenset()
    """The codes of 5xx that the case's fault is bound to bring: a database that is away answers 503."""
    stored: Sequence[Stored] = ()
    """From the relay's database, read directly."""
    held: Mapping[str, str] = field(default_factory=dict)
    """From the specialist: the task of each UUID that it has stored."""
    received: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    """From the specialist: every body that came in under a UUID."""
    acknowledged: frozenset[str] = frozenset()
    """From the specialist: the UUIDs for which it has sent a whole, matching 201 to somebody who still listened."""
    breaches: Sequence[str] = ()
    """From the case itself: what must not happen under its fault and did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What is wrong, counted. All of it is expected to be 0."""

    lost: int
    doubled: int
    unacknowledged: int
    stuck: int
    unlogged: int
    unexpected_5xx: int
    breaches: int

    @property
    def clean(self) -> bool:
        return not any(getattr(self, name) for name in self.__slots__)


def findings(facts: Facts) -> Findings:
    """Judge a run."""
    return Findings(
        lost=len(set(_lost(facts))),
        doubled=sum(_doubled(facts)),
        unacknowledged=sum(s.state == "saved" and s.id not in facts.acknowledged for s in facts.stored),
        stuck=sum(s.state in WAITING and s.overdue for s in facts.stored),
        unlogged=sum(len(facts.received.get(s.id, ())) > s.attempts for s in facts.stored),
        unexpected_5xx=sum(r.code not in facts.excused for r in facts.refused),
        breaches=len(facts.breaches),
    )


def _lost(facts: Facts) -> Iterator[str]:
    """Accepted, and neither with the specialist nor visibly on its way there; or said to be saved, and not there."""
    stored = {s.id: s for s in facts.stored}
    for one in facts.accepted | stored.keys():
        if one in facts.held:
            continue
        waits = one in stored and stored[one].state in WAITING
        if not waits:
            yield one


def _doubled(facts: Facts) -> Iterator[int]:
    """Two rows for one rating, at either end; or other bytes under a UUID than those that were stored for it."""
    for rated in (facts.held.values(), [s.task for s in facts.stored]):
        yield from (rows - 1 for rows in Counter(rated).values())
    payloads = {s.id: s.payload for s in facts.stored}
    for one, bodies in facts.received.items():
        yield len({*bodies, payloads.get(one, bodies[0])}) - 1
    # A UUID that the relay does not know by now was never committed and must never have been sent.
    yield len(facts.received.keys() - payloads.keys())
