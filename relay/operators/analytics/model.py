"""What is said of a set of submissions, and where the days of a time zone begin. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal

from relay.delivery.model import State

By = Literal["agent", "day", "state", "client"]
Percent = Literal[50, 95, 99]

PERCENTS: Final[tuple[Percent, ...]] = (50, 95, 99)

DAY_MS: Final = 86_400_000
EPOCH_DAY: Final = 719_163
"""The ordinal of 1970-01-01, as `datetime.date.fromordinal` counts days."""

_Z: Final = 1.959963984540054
"""The normal quantile for 95 %, both sides."""


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion with its 95 % interval; each from 0 to 1."""

    share: float
    low: float
    high: float


def wilson(successes: int, trials: int) -> Share | None:
    """The share of successes with Wilson's score interval (1927), which is sound for few trials and near 0 and 1.

    None without any trial.
    """
    if trials == 0:
        return None
    share, spread = successes / trials, _Z * _Z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials)) / (1 + spread)
    # At the ends the interval touches them, which floating point would miss by a hair.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Share(share, low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is said of a set of submissions.

    ``ups`` and ``downs`` leave out what was erased. ``percentiles`` are of the time from creation to saved, in
    milliseconds, by nearest rank, over what is saved: empty where nothing is. ``reasons`` count how the newest attempt
    failed, of what is not saved.
    """

    states: Mapping[State, int]
    ups: int
    downs: int
    percentiles: Mapping[Percent, int]
    reasons: Mapping[str, int]

    @property
    def count(self) -> int:
        return sum(self.states.values())

    @property
    def erased(self) -> int:
        return self.count - self.ups - self.downs

    @property
    def up_share(self) -> Share | None:
        return wilson(self.ups, self.ups + self.downs)


NOTHING: Final = Figures(states={}, ups=0, downs=0, percentiles={}, reasons={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The figures of all that is meant, and of each part of it by its key, in the order of the keys."""

    total: Figures
    parts: Sequence[tuple[str, Figures]]


@dataclass(frozen=True, slots=True)
class Offset:
    """From ``since`` on (milliseconds since the epoch), clocks are ``offset`` milliseconds ahead of UTC."""

    since: int
    offset: int


def offsets(zone: tzinfo, first: int, last: int) -> list[Offset]:
    """How far the clocks of a zone are ahead of UTC, from ``first`` to ``last`` at least; the first holds from ever.

    No zone has changed its clocks twice within a day and back.
    """
    found = [Offset(first, _offset(zone, first))]
    at = first
    while at <= last:
        following = at + DAY_MS
        if _offset(zone, following) != found[-1].offset:
            found.append(_change(zone, at, following))
        at = following
    return found


def _change(zone: tzinfo, before: int, after: int) -> Offset:
    """The change of clocks between two moments."""
    old = _offset(zone, before)
    while after - before > 1:
        middle = (before + after) // 2
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return Offset(after, _offset(zone, after))


def _offset(zone: tzinfo, milliseconds: int) -> int:
    ahead = datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone(zone).utcoffset() or timedelta()
    return ahead // timedelta(milliseconds=1)
