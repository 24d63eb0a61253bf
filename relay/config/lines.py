"""On which line a key stands. The TOML parser tells lines of syntax errors only, so the text is scanned once more.

The scan knows table headers and ``key =`` at the start of a line, which is how configurations are written. Where it
meets anything else (inline tables, keys inside a multi-line array) it knows no line, and the report goes to the
nearest table around.
"""

import re
from collections.abc import Iterator

from relay.config.problems import Place

_KEY = r"""(?:[A-Za-z0-9_-]+|"[^"\\]*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(?P<open>\[\[?)\s*(?P<name>{_DOTTED})\s*\]")
_ASSIGNMENT = re.compile(rf"\s*(?P<name>{_DOTTED})\s*=")
_PART = re.compile(_KEY)


def find_lines(text: str) -> dict[Place, int]:
    """Lines (from 1) by place. Only for text that has been parsed as TOML."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for number, line in _outside_of_long_strings(text):
        if header := _HEADER.match(line):
            table = _enter(_parts(header["name"]), counts, repeated=header["open"] == "[[")
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault((*table, *_parts(assignment["name"])), number)
    return lines


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _enter(parts: list[str], counts: dict[Place, int], *, repeated: bool) -> Place:
    """The place of a header: each list of tables on the way stands for its newest entry."""
    place: Place = ()
    for depth, part in enumerate(parts, start=1):
        place = (*place, part)
        if repeated and depth == len(parts):
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = (*place, counts[place])
    return place


def _outside_of_long_strings(text: str) -> Iterator[tuple[int, str]]:
    closing: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if closing is None:
            yield number, line
            opened = [mark for mark in ('"""', "'''") if line.count(mark) % 2]
            closing = opened[0] if opened else None
        elif closing in line:
            closing = None
