"""Access tokens of the demonstration's issuer (RFC 9068)."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

from relay.clock import Clock

TENANT = "demo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token says: who, through which client, at which resource, with which scopes, for how many seconds.

    ``about`` joins the claims as it is. ``bound_to`` is the thumbprint of the key that its bearer has to prove
    (RFC 9449 section 6.1). ``issued_type`` is said beside a token that an exchange brought (RFC 8693 section 2.2.1).
    ``identity`` becomes an ID token (OpenID Connect Core 1.0 section 2); it and ``refresh_token`` go along.
    """

    subject: str
    client_id: str
    resource: str
    scopes: frozenset[str]
    seconds: int
    about: Mapping[str, Any] = field(default_factory=dict)
    bound_to: str | None = None
    issued_type: str | None = None
    identity: Mapping[str, Any] | None = None
    refresh_token: str | None = field(default=None, repr=False)


class Mint:
    """Signs access tokens with the issuer's key."""

    def __init__(self, key: ECKey, *, issuer: str, clock: Clock) -> None:
        self._key = key
        self._issuer = issuer
        self._clock = clock

    @property
    def key_set(self) -> dict[str, Any]:
        return {"keys": [self._key.as_dict(private=False)]}

    def answer(self, grant: Grant) -> dict[str, Any]:
        """The token and what RFC 6749 section 5.1 and RFC 9396 section 7 say beside it."""
        answer = {
            "access_token": self.token(grant),
            "token_type": "Bearer" if grant.bound_to is None else "DPoP",
            "expires_in": grant.seconds,
            "scope": " ".join(sorted(grant.scopes)),
        }
        if grant.issued_type is not None:
            answer["issued_token_type"] = grant.issued_type
        if grant.identity is not None:
            answer["id_token"] = self._id_token(grant.identity, grant.seconds)
        if grant.refresh_token is not None:
            answer["refresh_token"] = grant.refresh_token
        if "authorization_details" in grant.about:
            answer["authorization_details"] = grant.about["authorization_details"]
        return answer

    def _id_token(self, identity: Mapping[str, Any], seconds: int) -> str:
        now = int(self._clock.unix())
        claims = {"iss": self._issuer, "iat": now, "exp": now + seconds, **identity}
        return jwt.encode({"alg": "ES256", "typ": "JWT", "kid": self._key.kid}, claims, self._key)

    def token(self, grant: Grant) -> str:
        now = int(self._clock.unix())
        claims = {
            "iss": self._issuer,
            "aud": grant.resource,
            "sub": grant.subject,
            "client_id": grant.client_id,
            "scope": " ".join(sorted(grant.scopes)),
            "tenant": TENANT,
            "jti": secrets.token_urlsafe(16),
            "iat": now,
            "exp": now + grant.seconds,
            **grant.about,
        }
        if grant.bound_to is not None:
            claims["cnf"] = {"jkt": grant.bound_to}
        return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": self._key.kid}, claims, self._key)
