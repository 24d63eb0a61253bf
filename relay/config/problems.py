"""What is wrong with a configuration, and how an operator is told: the key, the problem, and the line if known."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""Where a value stands: keys, and positions (from 0) within lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """``text`` completes the sentence "this key …". ``value`` is shown, so it must never come from a secret's place."""

    place: Place
    text: str
    value: object = None


def render(problem: Problem) -> str:
    """``[delivery] lease_seconds = 8: must …``, as the key would be looked for in the file."""
    shown = "" if problem.value is None else f" = {_toml(problem.value)}"
    return f"{name_of(problem.place)}{shown}: {problem.text}"


def name_of(place: Place) -> str:
    """The key as an operator finds it: ``[delivery] lease_seconds``, ``[[agents]] no. 1, credentials no. 2, scope``."""
    first_number = next((at for at, part in enumerate(place) if isinstance(part, int)), len(place))
    keys, rest = [str(part) for part in place[:first_number]], place[first_number:]
    if len(rest) > 1 or (rest and len(keys) == 1):
        return f"[[{'.'.join(keys)}]]{_name_within(rest)}"
    header, key = (keys[:-1], f" {keys[-1]}") if len(keys) > 1 else (keys, "")
    return f"[{'.'.join(header)}]{key}{_name_within(rest)}"


def _name_within(rest: Place) -> str:
    return "".join(f" no. {part + 1}" if isinstance(part, int) else f", {part}" for part in rest)


def _toml(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float() if math.isfinite(value) and value == int(value):
            return str(int(value))
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{escaped}"' if value.isprintable() else ascii(value)
        case _:
            return str(value)


def report(file: str, problems: Iterable[Problem], lines: Mapping[Place, int]) -> str:
    """One line for each problem, each beginning with the file and, where it is known, the line."""
    return "\n".join(f"{file}{_line(problem.place, lines)}: {render(problem)}" for problem in problems)


def _line(place: Place, lines: Mapping[Place, int]) -> str:
    """The line of the key, else of the nearest table around it (a missing key has none of its own)."""
    for length in range(len(place), 0, -1):
        if (number := lines.get(place[:length])) is not None:
            return f":{number}"
    return ""
