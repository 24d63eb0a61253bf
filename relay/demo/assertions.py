"""What the demonstration's issuer demands of an assertion (RFC 7523 section 3). No I/O; replays are counted apart."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from registry.strict_json import loads

CLIENT_ASSERTION_TYPES = (None, "JWT", "client-authentication+jwt")
OWNER_ASSERTION_TYPES = ("owner-assertion+jwt",)
DETAILS_TYPE = "feedback_submission"
LONGEST_SECONDS = 60
LEEWAY_SECONDS = 5

_ALGORITHMS = ("ES256", "RS256")
_LONGEST_TEXT = 256
_DETAILS = {
    "type": re.compile(DETAILS_TYPE),
    "submission_id": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "task_id": re.compile(rf"(?s:.{{1,{_LONGEST_TEXT}}})"),
    "payload_sha256": re.compile(r"[0-9a-f]{64}"),
}


class AssertionRefused(Exception):  # noqa: N818 - reads as what it says
    """An assertion does not hold. The message says which demand it misses and quotes nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredClient:
    """A client, its one public key, and the relays (by public URL) that may assert owners in its name."""

    client_id: str
    key: ECKey | RSAKey
    relays: frozenset[str]


@dataclass(frozen=True, slots=True)
class Asserted:
    """What is left of an assertion that holds. ``jti`` is unique within ``issuer`` until ``expires_at``."""

    issuer: str
    subject: str
    jti: str
    expires_at: int
    details: tuple[Mapping[str, str], ...] = ()


def unverified_client_id(assertion: str) -> str | None:
    """Whom a client assertion says that it is from, to look up the key that has to prove it."""
    try:
        subject = loads(jws.extract_compact(assertion.encode()).payload).get("sub")
    except Exception:  # noqa: BLE001 - parsers of a stranger's text raise many kinds
        return None
    return subject if isinstance(subject, str) else None


def check_client_assertion(assertion: str, client: RegisteredClient, *, audience: str, now: float) -> Asserted:
    """``private_key_jwt`` (section 2.2): the client is its own issuer and subject."""
    claims = _verified(assertion, client, CLIENT_ASSERTION_TYPES)
    if claims.get("iss") != client.client_id or claims.get("sub") != client.client_id:
        raise AssertionRefused("iss and sub have to be the client id")
    return _common(claims, audience, now)


def check_owner_assertion(assertion: str, client: RegisteredClient, *, audience: str, now: float) -> Asserted:
    """A registered relay acts for an owner (section 2.1), for exactly one submission (RFC 9396)."""
    claims = _verified(assertion, client, OWNER_ASSERTION_TYPES)
    issuer = claims.get("iss")
    if not isinstance(issuer, str) or issuer not in client.relays:
        raise AssertionRefused("iss is no relay that this client registered")
    if claims.get("client_id") != client.client_id:
        raise AssertionRefused("client_id is not the authenticated client")
    if claims.get("act") != {"sub": issuer}:
        raise AssertionRefused("act has to name the relay that asserts")
    common = _common(claims, audience, now)
    details = _details(claims.get("authorization_details"))
    return Asserted(common.issuer, common.subject, common.jti, common.expires_at, details)


def _verified(assertion: str, client: RegisteredClient, types: tuple[str | None, ...]) -> Mapping[str, Any]:
    try:
        signed = jws.deserialize_compact(assertion, client.key, list(_ALGORITHMS))
        header, claims = signed.headers(), loads(signed.payload or b"")
    except Exception:  # noqa: BLE001 - odd headers raise TypeError, keys their own kinds
        raise AssertionRefused("the signature is not of the client's registered key") from None
    # A header that names keys or extensions of its own is refused, whatever it says.
    if not header.keys() <= {"alg", "kid", "typ"} or header.get("kid") != client.key.thumbprint():
        raise AssertionRefused("the header may hold alg, typ, and the kid of the registered key")
    if header.get("typ") not in types:
        raise AssertionRefused("typ is of another kind of token")
    if not isinstance(claims, dict):
        raise AssertionRefused("the claims are not an object")
    return claims


def _common(claims: Mapping[str, Any], audience: str, now: float) -> Asserted:
    if claims.get("aud") not in (audience, [audience]):
        raise AssertionRefused("aud has to be this issuer alone")
    expires_at = _check_times(claims, now)
    subject, jti = claims.get("sub"), claims.get("jti")
    if not (_is_text(subject) and _is_text(jti)):
        raise AssertionRefused("sub and jti have to be texts")
    return Asserted(claims["iss"], str(subject), str(jti), expires_at)


def _check_times(claims: Mapping[str, Any], now: float) -> int:
    issued_at, expires_at = claims.get("iat"), claims.get("exp")
    if type(issued_at) is not int or type(expires_at) is not int:
        raise AssertionRefused("iat and exp have to be whole seconds")
    if not 0 < expires_at - issued_at <= LONGEST_SECONDS:
        raise AssertionRefused(f"exp may be {LONGEST_SECONDS} seconds after iat")
    if issued_at > now + LEEWAY_SECONDS:
        raise AssertionRefused("iat lies in the future")
    if expires_at <= now - LEEWAY_SECONDS:
        raise AssertionRefused("exp has passed")
    return expires_at


def _details(value: object) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
        raise AssertionRefused("authorization_details has to name one submission")
    detail = value[0]
    if detail.keys() != _DETAILS.keys() or not all(_fits(_DETAILS[name], detail[name]) for name in _DETAILS):
        raise AssertionRefused("authorization_details is malformed")
    return (detail,)


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_TEXT
