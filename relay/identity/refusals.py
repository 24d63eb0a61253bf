"""How a caller is refused: one text for every defect of a token, with the challenge of RFC 6750 section 3."""

from collections.abc import Sequence
from math import ceil
from typing import Final, Literal

from relay.errors import Refusal

REALM: Final = "feedback-relay"

Defect = Literal[
    "no_token",
    "malformed_token",
    "token_too_long",
    "header_not_json",
    "refused_header_member",
    "wrong_type",
    "algorithm_not_allowed",
    "no_key_id",
    "payload_not_json",
    "unknown_issuer",
    "unknown_key",
    "key_not_for_algorithm",
    "bad_signature",
    "wrong_audience",
    "expired",
    "not_yet_valid",
    "issued_in_the_future",
    "lifetime_too_long",
    "malformed_time",
    "malformed_scope",
    "malformed_subject",
    "malformed_client",
    "malformed_tenant",
    "malformed_token_id",
]


class TokenDefect(Exception):  # noqa: N818 - a defect of the token, not an error of ours
    """Why a token is not taken: for logs and metrics only. The caller is never told which it was."""

    def __init__(self, reason: Defect) -> None:
        super().__init__(reason)
        self.reason: Defect = reason


def unauthenticated(*, token_sent: bool) -> Refusal:
    """The one 401. RFC 6750 section 3.1: no error code where no token was sent."""
    error = ', error="invalid_token"' if token_sent else ""
    return Refusal(
        "unauthenticated",
        "Send one valid access token for this relay in the header `Authorization: Bearer <token>`.",
        headers={"WWW-Authenticate": f'Bearer realm="{REALM}"{error}'},
    )


def ambiguous_authentication(detail: str) -> Refusal:
    """RFC 6750 section 2: a request carries its token in one way and once."""
    return Refusal(
        "malformed_request",
        detail,
        headers={"WWW-Authenticate": f'Bearer realm="{REALM}", error="invalid_request"'},
    )


def insufficient_scope(scope: str, detail: str) -> Refusal:
    """The 403 that names the scope to ask the issuer for."""
    return Refusal(
        "insufficient_scope",
        detail,
        headers={"WWW-Authenticate": f'Bearer realm="{REALM}", error="insufficient_scope", scope="{scope}"'},
    )


def insufficient_user_authentication(*, max_age: int | None, acr_values: Sequence[str]) -> Refusal:
    """The 401 that sends a person to sign in again (RFC 9470 section 3). ``max_age`` is in seconds."""
    wanted = {"acr_values": " ".join(acr_values), "max_age": "" if max_age is None else str(max_age)}
    parameters = "".join(f', {name}="{value}"' for name, value in wanted.items() if value)
    return Refusal(
        "insufficient_user_authentication",
        "Sign in again, as the WWW-Authenticate header says, and send the request with the new token.",
        headers={"WWW-Authenticate": f'Bearer realm="{REALM}", error="insufficient_user_authentication"{parameters}'},
    )


def keys_unavailable(retry_seconds: float) -> Refusal:
    """The token may well be good, but its issuer's keys cannot be had to tell."""
    return Refusal(
        "keys_unavailable",
        "The keys of the token's issuer cannot be fetched right now. Send the same request again.",
        headers={"Retry-After": str(max(1, ceil(retry_seconds)))},
    )


def owner_keys_unavailable() -> Refusal:
    """The owner may well be known, but under a key that this process was not given: it runs an old configuration."""
    return Refusal(
        "keys_unavailable",
        "This gateway lacks a key that the relay's records are kept under. Send the same request again.",
        headers={"Retry-After": "5"},
    )
