"""What the demonstration's issuer demands of a token that is to be exchanged (RFC 8693): that it is one of its own."""

from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.jwk import ECKey

from registry.strict_json import loads
from relay.demo.assertions import RegisteredClient

ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a name of RFC 8693


class SubjectTokenRefused(Exception):  # noqa: N818 - reads as what it says
    """A token cannot be exchanged. The message says which demand it misses and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class Presence:
    """Who is there, by a token that holds: with which scopes, until when, and who may act for them."""

    subject: str
    actor: str
    scopes: frozenset[str]
    expires_at: int


def check_subject_token(token: str, key: ECKey, client: RegisteredClient, *, issuer: str, now: float) -> Presence:
    """The person behind a token of ours for a relay that may act for them through this client."""
    claims = _verified(token, key)
    if claims.get("iss") != issuer:
        raise SubjectTokenRefused("the token is another issuer's")
    audience = claims.get("aud")
    if not isinstance(audience, str) or audience not in client.relays:
        raise SubjectTokenRefused("the token was not given out for a relay that this client registered")
    if claims.get("client_id") != client.client_id:
        raise SubjectTokenRefused("the token was given out to another client")
    if claims.get("may_act") != {"sub": audience}:
        raise SubjectTokenRefused("the token lets nobody act for its subject")
    expires_at = claims.get("exp")
    if type(expires_at) is not int or expires_at <= now:
        raise SubjectTokenRefused("the token has expired")
    return Presence(claims["sub"], audience, frozenset(claims["scope"].split(" ")), expires_at)


def _verified(token: str, key: ECKey) -> dict[str, Any]:
    try:
        signed = jws.deserialize_compact(token, key, ["ES256"])
        claims: dict[str, Any] = loads(signed.payload or b"")
    except Exception:  # noqa: BLE001 - odd headers raise TypeError, keys their own kinds
        raise SubjectTokenRefused("the token is not signed with our key") from None
    # Whatever we signed has the shape that we gave it; what kind of token it is has to be looked at.
    if signed.headers() != {"alg": "ES256", "typ": "at+jwt", "kid": key.kid}:
        raise SubjectTokenRefused("the token is of another kind")
    return claims
