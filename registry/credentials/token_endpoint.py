"""What is said to a token endpoint, and what its answers mean (RFC 6749 sections 5.1 and 5.2). No I/O."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from authlib.oauth2.rfc7523 import JWTBearerClientAssertion

from registry.credentials.failures import CredentialFailure
from registry.credentials.oauth_errors import error_code
from registry.credentials.proofs import Prover
from registry.credentials.tokens import AccessToken
from registry.egress import Exchange
from registry.strict_json import NotStrictJson, loads

Form = Sequence[tuple[str, str]]

JWT_BEARER_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
MAX_ANSWER_BYTES = 65_536

_MAX_TOKEN_LENGTH = 16_384
_LONGEST_LIFETIME = 86_400
_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_PASSING_ERRORS = frozenset({"temporarily_unavailable", "server_error", "slow_down"})
_PASSING_STATUSES = frozenset({408, 425, 429})


def is_b64token(text: str) -> bool:
    """Whether the text may stand after ``Bearer`` (RFC 6750 section 2.1): anything else could end the header."""
    return len(text) <= _MAX_TOKEN_LENGTH and _B64TOKEN.fullmatch(text) is not None


def request_body(grant: Form, *, resource: str, scope: str, client_assertion: str) -> bytes:
    """A token request: the grant's own parameters, the resource (RFC 8707), the scope and the client's proof."""
    form = [*grant, ("resource", resource)]
    if scope:
        form.append(("scope", scope))
    form.append(("client_assertion_type", JWTBearerClientAssertion.CLIENT_ASSERTION_TYPE))
    form.append(("client_assertion", client_assertion))
    return urlencode(form).encode("ascii")


def read_answer(
    answer: Exchange, *, asked_at: float, prover: Prover | None = None, issued_type: str | None = None
) -> AccessToken:
    """The token in an answer; its lifetime counts from before the question. Raises CredentialFailure.

    ``prover`` made the request's proof: the token has to be bound by it then (RFC 9449 section 5), so that no server
    can quietly do without. ``issued_type`` is what an exchange has to have issued (RFC 8693 section 2.2.1).
    """
    if answer.status != 200:  # noqa: PLR2004 - RFC 6749 section 5.1
        raise _refusal(answer)
    members = _members(answer)
    kind, value = members.get("token_type"), members.get("access_token")
    if not isinstance(kind, str) or kind.lower() != ("bearer" if prover is None else "dpop"):
        raise _malformed("token_type")
    if issued_type is not None and members.get("issued_token_type") != issued_type:
        raise _malformed("issued_token_type")
    if not isinstance(value, str) or not is_b64token(value):
        raise _malformed("access_token")
    return AccessToken(value, asked_at + _usable_seconds(members), prover)


def _usable_seconds(members: dict[str, Any]) -> float:
    """How long to use the token: until shortly before it expires, and once only where its lifetime is unknown."""
    if "expires_in" not in members:
        return 0.0
    lifetime = members["expires_in"]
    if type(lifetime) is not int or lifetime <= 0:
        raise _malformed("expires_in")
    lifetime = min(lifetime, _LONGEST_LIFETIME)
    return lifetime - min(30.0, lifetime / 4)


def _members(answer: Exchange) -> dict[str, Any]:
    if not answer.complete:
        raise _malformed("too_large")
    try:
        members = loads(answer.body)
    except NotStrictJson as error:
        raise _malformed(error.reason) from None
    if not isinstance(members, dict):
        raise _malformed("not_an_object")
    return members


def _refusal(answer: Exchange) -> CredentialFailure:
    passing = answer.status >= 500 or answer.status in _PASSING_STATUSES  # noqa: PLR2004 - server errors
    error = error_code(answer)
    if error is None:
        return CredentialFailure("token_endpoint_failed", temporary=passing, cause=str(answer.status))
    return CredentialFailure("token_refused", temporary=passing or error in _PASSING_ERRORS, cause=error)


def _malformed(cause: str) -> CredentialFailure:
    return CredentialFailure("malformed_token_answer", temporary=False, cause=cause)
