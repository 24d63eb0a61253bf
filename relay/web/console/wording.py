"""How the console says what is a code, a number or a length of time elsewhere. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, Final

_SECOND: Final = 1000
_UNITS: Final = ((86_400 * _SECOND, "d"), (3_600 * _SECOND, "h"), (60 * _SECOND, "min"), (_SECOND, "s"))


def words(code: str) -> str:
    """``needs_owner`` as people read it."""
    return code.replace("_", " ")


def number(value: int) -> str:
    """With a comma after every three digits."""
    return f"{value:,}"


def duration(milliseconds: int | None) -> str:
    """The two largest units that say something: ``3 d 4 h``, ``12 s``, ``240 ms``. None: a dash."""
    if milliseconds is None:
        return "–"
    if milliseconds < _SECOND:
        return f"{max(0, milliseconds)} ms"
    parts: list[str] = []
    rest = milliseconds
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def percent(share: float | None) -> str:
    """With one digit behind the point. None: a dash."""
    return "–" if share is None else f"{100 * share:.1f} %"


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "words": words,
    "number": number,
    "duration": duration,
    "percent": percent,
}
