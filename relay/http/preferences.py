"""The Prefer header (RFC 7240): how long a caller will wait."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from aiohttp import web

from relay.errors import Refusal

DEFAULT_WAIT = 2.0
MAX_WAIT = 10

_QUOTED = r'"(?:[^"\\]|\\.)*+"?+'
"""A quoted string; one that does not end goes on to the end of the header."""
_MEMBER = re.compile(rf'(?:[^,"]|{_QUOTED})++')
_PREFERENCE = re.compile(
    r"[ \t]*(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]++)[ \t]*"
    rf"(?:=[ \t]*(?P<value>{_QUOTED}|[^;\"]*+)[ \t]*)?"
    r"(?:;.*)?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Preference:
    """``wait`` seconds for the acknowledgement; ``applied`` is what Preference-Applied says, if it was asked for."""

    wait: float = DEFAULT_WAIT
    applied: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """For the answer that honoured the preference (RFC 7240 section 3)."""
        return {} if self.applied is None else {"Preference-Applied": self.applied}


def read_preference(request: web.Request) -> Preference:
    """What the caller prefers; 400 ``malformed_request`` for a wait that is not 0 to 10 whole seconds.

    Where both are given, ``wait`` bounds the wait before the asynchronous answer (RFC 7240 section 4.3). The first of
    several equal names counts (section 2); names that we do not know are ignored.
    """
    lines = request.headers.getall("Prefer", ())
    if not lines:
        return Preference()
    return _preference(", ".join(lines))


@lru_cache(256)
def _preference(header: str) -> Preference:
    """Programs send the same few headers all the time. A refusal is not remembered."""
    preferred: dict[str, str] = {}
    for name, value in _members(header):
        preferred.setdefault(name, value)
    if "wait" in preferred:
        seconds = _seconds(preferred["wait"])
        return Preference(float(seconds), f"wait={seconds}")
    return Preference(0.0, "respond-async") if "respond-async" in preferred else Preference()


def wait_seconds(request: web.Request) -> float:
    """How long the answer may wait, in seconds."""
    return read_preference(request).wait


def _members(line: str) -> Iterator[tuple[str, str]]:
    for member in _MEMBER.finditer(line):
        if match := _PREFERENCE.fullmatch(member[0]):
            yield match["name"].lower(), _unquoted((match["value"] or "").rstrip(" \t"))


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _seconds(value: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", value) or int(value) > MAX_WAIT:
        raise Refusal("malformed_request", f"Prefer: wait takes whole seconds from 0 to {MAX_WAIT}.")
    return int(value)
