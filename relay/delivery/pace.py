"""How quickly attempts come to an end, as of late."""

from relay.clock import Clock

_SHORTEST_SECONDS = 0.01
"""Of a stretch of time that a pace is taken over."""


class Pace:
    """Counts, and says how many to expect: half of the estimate is what happened since it was last asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._counted = 0
        self._per_second = 0.0

    def count(self) -> None:
        self._counted += 1

    def halt(self) -> None:
        """Expect nothing until more has happened."""
        self._since, self._counted, self._per_second = self._clock.monotonic(), 0, 0.0

    def within(self, seconds: float) -> int:
        """How many are to be expected in so much time."""
        now = self._clock.monotonic()
        elapsed = now - self._since
        if elapsed >= _SHORTEST_SECONDS:
            self._per_second = (self._per_second + self._counted / elapsed) / 2
            self._since, self._counted = now, 0
        return int(self._per_second * seconds)
