"""Ratios of two things measured by turns, and how they are shown."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Rounds of ours and of what it is compared with, in ``unit``; each round of one beside the same round of the
    other. ``wanted`` is what the ratio of the medians should be at least, or at most where ``less`` is better.
    """

    what: str
    against: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float]
    wanted: float | None = None
    less: bool = False

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def reached(self) -> bool | None:
        if self.wanted is None:
            return None
        return self.ratio <= self.wanted if self.less else self.ratio >= self.wanted

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a round."""
        ratios = [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]
        return min(ratios), max(ratios)
