"""Answers that are compared byte by byte."""

from collections.abc import Mapping
from typing import Final, NamedTuple

CHANCE: Final = frozenset({"date"})
"""Headers that differ between any two answers."""

Headers = tuple[tuple[str, str], ...]


class Seen(NamedTuple):
    """All that a caller can see of an answer, but its time."""

    status: int
    headers: Headers
    body: bytes


def without_chance(headers: Mapping[str, str]) -> Headers:
    """The headers in their order, without those that differ between any two answers."""
    return tuple((name, value) for name, value in headers.items() if name.lower() not in CHANCE)
