"""The one place that asks the time. Due and lease times are the database's, not ours."""

import time
from datetime import UTC, datetime
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
    instant = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
