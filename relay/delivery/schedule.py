"""When to try again: the configured waits, jitter that only adds, and the specialist's Retry-After as a floor."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

from tenacity import RetryCallState, Retrying, wait_combine, wait_fixed, wait_random, wait_random_exponential

JITTER = 0.1
"""The largest share of a wait that is added to it."""

_STATE = RetryCallState(Retrying(), None, (), {})
"""What tenacity hands to a wait; the waits used here do not look at it, and it is costly to make."""

# ASCII only: str.isdigit() takes digits of every script.
_SECONDS = re.compile(r"[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Schedule:
    """N waits in seconds are N attempts; the first is the wait before the first."""

    waits: tuple[float, ...]
    jitter: float = JITTER

    @property
    def starts_at_once(self) -> bool:
        return self.waits[0] == 0

    def is_used_up(self, position: int) -> bool:
        """Whether no attempt is left after ``position`` scheduled ones."""
        return position >= len(self.waits)

    def wait_ms(self, position: int) -> int:
        """Milliseconds before the attempt that follows ``position`` scheduled ones; without one left, the last wait."""
        wait = self.waits[min(position, len(self.waits) - 1)]
        return round(wait_combine(wait_fixed(wait), wait_random(0, wait * self.jitter))(_STATE) * 1000)

    def spread_ms(self, floor_ms: int) -> int:
        """A floor with jitter that only adds, so that those who were turned away together do not return together."""
        return floor_ms + round(wait_random(0, floor_ms * self.jitter)(_STATE))


def schedule(waits: Sequence[float]) -> Schedule:
    if not waits:
        raise ValueError("a schedule has at least one wait")
    return Schedule(tuple(waits))


def pause_seconds(failures: int) -> float:
    """How long to leave a database alone that has been away so many times in a row."""
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = failures
    return wait_random_exponential(multiplier=0.2, max=5)(state)


def retry_after_ms(header: str | None, *, now: float, most: float = 86_400) -> int:
    """A Retry-After header (RFC 9110 section 10.2.3) as milliseconds from ``now`` (Unix seconds), capped at ``most``
    seconds. 0: no floor, because there is none, it lies in the past, or it cannot be read.
    """
    if header is None:
        return 0
    seconds = _seconds(header.strip(), now)
    return round(min(max(seconds, 0), most) * 1000)


def _seconds(header: str, now: float) -> float:
    if _SECONDS.match(header):
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, OverflowError):
        return 0
    # HTTP dates are GMT; the parser gives "-0000" no zone at all.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
