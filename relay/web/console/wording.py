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


_ENDS: Final[Mapping[str, str]] = {
    "retry": "failed, to be tried again",
    "lost": "lost, nothing was heard of it",
    "released": "given back before it was sent",
    "conflict": "conflict: the specialist keeps other content under this UUID",
}
_CAUSES: Final[Mapping[str, str]] = {
    "accept": "right after it was accepted",
    "schedule": "by the schedule",
    "repeat": "its owner sent it once more",
    "retry": "its owner asked for it",
    "sign_in": "its owner was here",
    "reconcile": "what the specialist keeps was read back",
}


def end(code: str) -> str:
    """What came of an attempt."""
    return _ENDS.get(code) or words(code)


def cause(code: str) -> str:
    """Why an attempt was made."""
    return _CAUSES.get(code) or words(code)


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "words": words,
    "number": number,
    "duration": duration,
    "percent": percent,
    "end": end,
    "cause": cause,
}
