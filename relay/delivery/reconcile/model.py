"""What is checked of a delivery, and what follows from what its specialist's list shows. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, assert_never

from registry.model import AgentId, RanAs, Version
from registry.protocols.contract import Found, Rated, Rating, Resolution
from relay.delivery.model import FINAL, Behalf, DeliveryId, Evidence, State
from relay.delivery.schedule import Schedule
from relay.identity.model import OwnerId

Result = Literal[
    "confirmed",
    "missing",
    "mismatch",
    "out_of_window",
    "absent",
    "unreadable",
    "failed",
    "owner_absent",
    "not_supported",
    "held",
    "erased",
]
"""What came of a check, as it is counted. ``absent``: not there, and never acknowledged. From ``unreadable`` on nothing
was found out."""

ALARMING: frozenset[Evidence] = frozenset({"missing", "mismatch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A delivery that is to be checked, now (``due``) or so soon that the same list may serve."""

    delivery: DeliveryId
    owner: OwnerId
    check_due_at: int
    due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The right to settle one check. ``leased_until`` fences it: whoever else has moved the due time has the right now.

    ``checks`` counts those before this one. ``rating`` is None where the submission was erased.
    """

    delivery: DeliveryId
    leased_until: int
    checks: int
    agent: AgentId
    tenant: str
    owner: OwnerId
    pinned: Version
    protocol: str
    ran_as: RanAs
    submission: str
    task: str
    rating: Rating | None
    comment: str | None = field(repr=False)
    sha256: str | None
    state: State
    evidence: Evidence
    resolution: str | None = field(repr=False)

    @property
    def behalf(self) -> Behalf:
        return Behalf(
            owner=self.owner, ran_as=self.ran_as, submission=self.submission, task=self.task, sha256=self.sha256 or ""
        )

    @property
    def rated(self) -> Rated | None:
        return None if self.rating is None else Rated(self.submission, self.task, self.rating, self.comment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found out.

    ``evidence`` and ``resolution`` None leave what is stored. ``seen`` moves the time of the evidence. ``hurries`` has
    what still waits tried at once, ``conflicts`` ends it. ``counts`` uses up one entry of the schedule, ``ends`` all.
    """

    result: Result
    evidence: Evidence | None = None
    seen: bool = False
    resolution: Resolution | None = None
    hurries: bool = False
    conflicts: bool = False
    counts: bool = True
    ends: bool = False

    def changes_evidence_of(self, check: Check) -> bool:
        return self.evidence is not None and self.evidence != check.evidence

    def is_news_of(self, check: Check) -> bool:
        """Whether who rated sees a difference."""
        resolved = self.resolution is not None and self.resolution.text != check.resolution
        return resolved or self.changes_evidence_of(check)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A check with its finding. ``wait_ms``: until the next one; None: there is none.

    The last three tell of the reading, for the timeline of attempts.
    """

    check: Check
    finding: Finding
    wait_ms: int | None
    registration: Version | None = None
    status: int | None = None
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Something that the run used or made; ids are the specialist's own."""

    kind: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A submission joined to the specialist's run that earned it, and what reading back says of it.

    ``run`` and ``references`` come from provenance. Times in milliseconds.
    """

    submission: str
    agent: AgentId
    task: str
    run: str | None
    references: tuple[Reference, ...]
    evidence: Evidence
    evidence_at: int | None
    resolution: str | None = field(repr=False)


def choose(candidates: Sequence[Candidate], free: int) -> list[Candidate]:
    """All candidates of the owners whose turn it is: the longest due first, at most ``free`` owners."""
    owners = list(dict.fromkeys(c.owner for c in candidates if c.due))[:free]
    return [c for c in candidates if c.owner in owners]


def by_owner(checks: Iterable[Check]) -> list[list[Check]]:
    """Checks whose lists are asked for one after the other: those of one owner at one agent."""
    return _grouped(checks, lambda check: (check.agent, check.owner, ""))


def by_identity(checks: Iterable[Check]) -> list[list[Check]]:
    """Checks that one list answers: a task that ran as the client stands in another list than one that ran as its
    owner.
    """
    return _grouped(checks, lambda check: (check.agent, check.owner, check.ran_as))


def _grouped(checks: Iterable[Check], key: Callable[[Check], tuple[str, int, str]]) -> list[list[Check]]:
    return [list(group) for _, group in groupby(sorted(checks, key=key), key=key)]


def judge(check: Check, found: Found) -> Finding:  # noqa: PLR0911 - one return for each row of the table
    """What a list says of one delivery.

    Whatever was confirmed stays so while nothing speaks against it: a list that does not reach back far enough says
    nothing, and will not reach further next time.
    """
    match found.content:
        case "same":
            # Only a 201 saves. Once is enough: what fails again goes back to its schedule.
            hurries = check.state not in FINAL and check.evidence != "confirmed"
            return Finding(
                result="confirmed", evidence="confirmed", seen=True, resolution=found.resolution, hurries=hurries
            )
        case "different":
            conflicts = check.state not in FINAL
            return Finding(result="mismatch", evidence="mismatch", seen=True, conflicts=conflicts)
        case "absent" if check.state == "saved" or check.evidence == "confirmed":
            return Finding(result="missing", evidence="missing", seen=True)
        case "absent":
            return Finding(result="absent", seen=True)
        case "out_of_window" if check.evidence in ("unchecked", "out_of_window"):
            return Finding(result="out_of_window", evidence="out_of_window", seen=True, ends=True)
        case "out_of_window":
            return Finding(result="out_of_window", ends=True)
        case "unreadable":
            return Finding(result="unreadable")
        case _:
            assert_never(found.content)


def next_wait_ms(schedule: Schedule, check: Check, finding: Finding, floor_ms: int = 0) -> int | None:
    """Until the next check, not before the specialist's floor; None: that was the last."""
    made = check.checks + 1
    if finding.ends or schedule.is_used_up(made):
        return None
    return max(schedule.wait_ms(made), schedule.spread_ms(floor_ms))
