"""Limits and windows. Pure.

A window is a minute. Each bucket's windows begin at a moment of its own, so that not all who wait come back at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Final, NewType

from relay.http.limits import Policy

WINDOW_SECONDS: Final = 60
WINDOW_MS: Final = WINDOW_SECONDS * 1000

Bucket = NewType("Bucket", str)
"""Whose requests are counted together: hexadecimal, by a keyed hash, so that it tells nothing of whom."""


@dataclass(frozen=True, slots=True)
class Limit:
    """``quota`` requests a window for ``bucket``."""

    policy: Policy
    quota: int
    bucket: Bucket


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a limit: ``remaining`` requests for the next ``reset_seconds``, rounded up."""

    limit: Limit
    remaining: int
    reset_seconds: int


def window_of(bucket: Bucket, now_ms: int) -> int:
    """When the bucket's window that holds this moment began, in milliseconds since the epoch."""
    offset = int(bucket[:8], 16) % WINDOW_MS
    return now_ms - (now_ms - offset) % WINDOW_MS


def standing(limit: Limit, used: int, now_ms: int) -> Standing:
    left_ms = window_of(limit.bucket, now_ms) + WINDOW_MS - now_ms
    return Standing(limit, max(0, limit.quota - used), ceil(left_ms / 1000))


def fields(standings: Iterable[Standing]) -> dict[str, str]:
    """The header fields of draft-ietf-httpapi-ratelimit-headers: lists of RFC 9651, one member for each limit."""
    standings = list(standings)
    return {
        "RateLimit-Policy": ", ".join(f'"{s.limit.policy}";q={s.limit.quota};w={WINDOW_SECONDS}' for s in standings),
        "RateLimit": ", ".join(f'"{s.limit.policy}";r={s.remaining};t={s.reset_seconds}' for s in standings),
    }
