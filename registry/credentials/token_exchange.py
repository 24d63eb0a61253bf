"""Token exchange (RFC 8693): the server that issued an owner's token turns it into one for a specialist."""

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

from registry.credentials.failures import CredentialFailure
from registry.credentials.token_endpoint import Form
from registry.strict_json import NotStrictJson, loads

TOKEN_EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name of RFC 8693
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - likewise

_ABOUT_THE_SUBJECT = frozenset({"invalid_request", "invalid_grant"})
"""Section 2.2.2 wants the first for a subject token that is no longer good; many servers send the second."""


@dataclass(frozen=True, slots=True)
class SubjectToken:
    """The owner's live token, which the gateway has verified. ``expires_at`` is in seconds since the epoch."""

    value: str = field(repr=False)
    issuer: str
    expires_at: float


def subject_token(value: str | None, *, issuer: str, now: float) -> SubjectToken:
    """The live token, if it may be shown to ``issuer``; raises CredentialFailure.

    It goes to nobody but the server that issued it, whoever mixed something up before.
    """
    if value is None:
        raise CredentialFailure("owner_absent", temporary=True)
    claims = _claims(value)
    expires_at = claims.get("exp")
    if claims.get("iss") != issuer or not isinstance(expires_at, int | float):
        raise CredentialFailure("subject_token_unfit", temporary=False)
    if expires_at <= now:
        raise CredentialFailure("owner_absent", temporary=True, cause="token_expired")
    return SubjectToken(value, issuer, expires_at)


def exchange_form(token: SubjectToken) -> Form:
    """The grant's own parameters (section 2.1)."""
    return [
        ("grant_type", TOKEN_EXCHANGE_GRANT),
        ("subject_token", token.value),
        ("subject_token_type", ACCESS_TOKEN_TYPE),
        ("requested_token_type", ACCESS_TOKEN_TYPE),
    ]


def as_to_the_subject(failure: CredentialFailure) -> CredentialFailure:
    """What a refusal means: the owner's token is not good any more, so that another one of theirs has to be awaited."""
    if failure.code == "token_refused" and failure.cause in _ABOUT_THE_SUBJECT:
        return CredentialFailure("subject_token_refused", temporary=True, cause=failure.cause)
    return failure.again()


def _claims(value: str) -> dict[str, Any]:
    """The claims of a JWT, nothing of them verified here; none where it is no JWT."""
    try:
        _, payload, _ = value.split(".")
        claims = loads(base64.b64decode(payload + "=" * (-len(payload) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, NotStrictJson):
        return {}
    return claims if isinstance(claims, dict) else {}
