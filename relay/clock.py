"""The one place that asks the time. Due and lease times are the database's, not ours."""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """What the program knows of time; tests bring one that they can turn."""

    def unix(self) -> float:
        """Seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back; only differences mean anything."""


class SystemClock:
    def unix(self) -> float:
        return time.time()  # noqa: TID251 - this is the clock

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(milliseconds: int) -> str:
    """The instant as RFC 3339 in UTC with milliseconds, as every answer of the API shows times."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_to_the_second(seconds)}.{rest:03}Z"


@lru_cache(1024)
def _to_the_second(seconds: int) -> str:
    """Many answers show the same few moments."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:-6]
