"""The text of a token, taken apart with nothing believed yet (RFC 7515 section 7.1, RFC 7519 section 7.2)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from joserfc.util import urlsafe_b64decode

from registry import strict_json
from relay.identity.refusals import Defect, TokenDefect

MAX_TOKEN_BYTES: Final = 8192
MAX_NAME_CHARACTERS: Final = 256

REFUSED_MEMBERS: Final = frozenset({"jku", "jwk", "x5u", "x5c", "crit", "b64"})
"""Members that would let a token choose its own key, or change what is signed."""

_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Unverified:
    """A token that is well formed. Nobody has vouched for any of it."""

    token: str = field(repr=False)
    algorithm: str
    kid: str
    type: str
    claims: Mapping[str, Any] = field(repr=False)


def parse(token: str) -> Unverified:
    """Take a compact JWS apart. Raises `TokenDefect`."""
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenDefect("token_too_long")
    segments = _COMPACT.fullmatch(token)
    if segments is None:
        raise TokenDefect("malformed_token")
    header = _json_object(segments[1], "header_not_json")
    if not REFUSED_MEMBERS.isdisjoint(header):
        raise TokenDefect("refused_header_member")
    return Unverified(
        token,
        algorithm=_text(header, "alg", "algorithm_not_allowed"),
        kid=_text(header, "kid", "no_key_id"),
        type=media_type(_text(header, "typ", "wrong_type")),
        claims=_json_object(segments[2], "payload_not_json"),
    )


def media_type(typ: str) -> str:
    """RFC 7515 section 4.1.9: case does not matter, and ``application/`` may be left out."""
    return typ.lower().removeprefix("application/")


def is_name(value: object) -> bool:
    """Whether this can identify somebody: a string that is not empty, not too long and has no control characters."""
    return isinstance(value, str) and 0 < len(value) <= MAX_NAME_CHARACTERS and _CONTROL.search(value) is None


def _text(header: Mapping[str, Any], member: str, defect: Defect) -> str:
    value = header.get(member)
    if not isinstance(value, str) or not is_name(value):
        raise TokenDefect(defect)
    return value


def _json_object(segment: str, defect: Defect) -> dict[str, Any]:
    try:
        value = strict_json.loads(urlsafe_b64decode(segment.encode("ascii")))
    except ValueError:  # base64 with padding bits set, or not strict JSON: two readers could differ on it
        raise TokenDefect(defect) from None
    if not isinstance(value, dict):
        raise TokenDefect(defect)
    return value
