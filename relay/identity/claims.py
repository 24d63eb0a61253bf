"""What verified claims say of the caller (RFC 9068 sections 2.2 and 4). Pure."""

from collections.abc import Mapping
from typing import Any, Final

from relay.identity.compact import is_name
from relay.identity.model import IssuerPolicy, Principal
from relay.identity.refusals import Defect, TokenDefect

LEEWAY_SECONDS: Final = 60
"""How far an issuer's clock may be ahead of ours. An expiry is never stretched."""

LATEST_INSTANT: Final = 253_402_300_800
"""The year 10000: a greater number is milliseconds, or nonsense."""


def principal(claims: Mapping[str, Any], policy: IssuerPolicy, token: str, now: float) -> Principal:
    """The caller that these claims name. Raises `TokenDefect`."""
    _check_audience(claims.get("aud"), policy.audience)
    expires_at = _check_times(claims, policy.max_lifetime, now)
    subject = _name(claims, "sub", "malformed_subject")
    client = _name(claims, policy.client_claim, "malformed_client")
    _name(claims, "jti", "malformed_token_id")
    tenant = policy.issuer if policy.tenant_claim is None else _name(claims, policy.tenant_claim, "malformed_tenant")
    return Principal(
        # RFC 9068 section 2.2: where no human takes part, the subject is the client itself.
        kind="machine" if subject == client else "human",
        issuer=policy.issuer,
        client=client,
        subject=subject,
        tenant=tenant,
        scopes=_scopes(claims),
        expires_at=expires_at,
        token=token,
        auth_time=_auth_time(claims.get("auth_time"), now),
        acr=_acr(claims.get("acr")),
    )


def _check_audience(audience: object, expected: str) -> None:
    audiences = audience if isinstance(audience, list) else [audience]
    if expected not in audiences or not all(isinstance(one, str) for one in audiences):
        raise TokenDefect("wrong_audience")


def _check_times(claims: Mapping[str, Any], max_lifetime: float | None, now: float) -> float:
    expires_at, issued_at = _instant(claims.get("exp")), _instant(claims.get("iat"))
    if now >= expires_at:
        raise TokenDefect("expired")
    if issued_at >= expires_at:
        raise TokenDefect("malformed_time")
    if issued_at > now + LEEWAY_SECONDS:
        raise TokenDefect("issued_in_the_future")
    if "nbf" in claims and _instant(claims["nbf"]) > now + LEEWAY_SECONDS:
        raise TokenDefect("not_yet_valid")
    if max_lifetime is not None and expires_at - issued_at > max_lifetime:
        raise TokenDefect("lifetime_too_long")
    return expires_at


def _instant(value: object) -> float:
    # bool is an int to Python. Every comparison with NaN is false, so that the range also keeps NaN out.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < LATEST_INSTANT:
        raise TokenDefect("malformed_time")
    return float(value)


def _name(claims: Mapping[str, Any], claim: str, defect: Defect) -> str:
    value = claims.get(claim)
    if not isinstance(value, str) or not is_name(value):
        raise TokenDefect(defect)
    return value


def _auth_time(value: object, now: float) -> float | None:
    """When the person signed in. What is no time, or lies ahead, tells nothing: it would stay recent for ever."""
    try:
        instant = _instant(value)
    except TokenDefect:
        return None
    return instant if instant <= now + LEEWAY_SECONDS else None


def _acr(value: object) -> str | None:
    """How the person signed in (OpenID Connect Core 1.0 section 2). Issuers that mean nothing by it send odd values."""
    return value if isinstance(value, str) and value else None


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    # RFC 6749 section 3.3: separated by spaces and nothing else, so that a tab cannot make one scope into two.
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise TokenDefect("malformed_scope")
    return frozenset(scope.split(" ")) - {""}
