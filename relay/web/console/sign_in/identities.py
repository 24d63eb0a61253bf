"""ID tokens: that this issuer says of this sign-in who it was (OpenID Connect Core 1.0 section 3.1.3.7)."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from authlib.oidc.core import CodeIDToken
from joserfc import jws
from joserfc.util import to_bytes

from registry import strict_json
from relay.clock import Clock
from relay.identity.compact import MAX_TOKEN_BYTES, REFUSED_MEMBERS
from relay.identity.keys import KeySets
from relay.web.console.sign_in.model import SignInFailed, Tokens

LEEWAY_SECONDS: Final = 60
_LONGEST_NAME: Final = 100
_ADVICE: Final = "The issuer's word on who you are does not hold. Start again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who signed in: ``name`` is for the person's own eyes."""

    subject: str = field(repr=False)
    name: str = field(repr=False)


class Identities:
    """Verifies the ID tokens of one issuer for one client."""

    def __init__(
        self, *, issuer: str, client_id: str, algorithms: Collection[str], keys: KeySets, clock: Clock
    ) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._algorithms = algorithms
        self._keys = keys
        self._clock = clock

    async def of(self, tokens: Tokens, *, nonce: str) -> Identity:
        """Who signed in. Raises `SignInFailed`, or `Refusal` (``keys_unavailable``)."""
        claims, header = await self._verified(tokens.identity or "")
        told = CodeIDToken(
            claims,
            header,
            {"iss": {"essential": True, "value": self._issuer}, "aud": {"essential": True, "value": self._client_id}},
            {"nonce": nonce, "client_id": self._client_id, "access_token": tokens.access},
        )
        try:
            told.validate(now=int(self._clock.unix()), leeway=LEEWAY_SECONDS)
        except Exception:  # noqa: BLE001 - claims of odd types raise more than the library's own
            raise SignInFailed("id_token_claims", _ADVICE) from None
        # An expiry is never stretched, and what the library takes for a subject may be no text.
        if self._clock.unix() >= claims["exp"] or not isinstance(claims["sub"], str):
            raise SignInFailed("id_token_claims", _ADVICE)
        return Identity(subject=claims["sub"], name=_name(claims))

    async def _verified(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            if len(token) > MAX_TOKEN_BYTES:
                raise SignInFailed("id_token_too_long", _ADVICE)  # noqa: TRY301 - told like the others
            unverified = jws.extract_compact(to_bytes(token))
            header = unverified.headers()
            algorithm, kid = header["alg"], header["kid"]
        except SignInFailed:
            raise
        except Exception:  # noqa: BLE001 - a stranger's text raises many kinds
            raise SignInFailed("id_token_malformed", _ADVICE) from None
        if algorithm not in self._algorithms or not REFUSED_MEMBERS.isdisjoint(header) or not isinstance(kid, str):
            raise SignInFailed("id_token_header", _ADVICE)
        key = await self._keys.find(self._issuer, kid, algorithm)
        if key is None or key.algorithm not in (None, algorithm):
            raise SignInFailed("id_token_key", _ADVICE)
        try:
            signed = jws.deserialize_compact(token, key.key, algorithms=[algorithm])
            claims = strict_json.loads(signed.payload or b"")
        except Exception:  # noqa: BLE001 - odd headers raise TypeError, keys their own kinds
            raise SignInFailed("id_token_signature", _ADVICE) from None
        if not isinstance(claims, dict):
            raise SignInFailed("id_token_malformed", _ADVICE)
        return claims, header


def _name(claims: dict[str, Any]) -> str:
    """How the issuer calls the person, in whichever claim."""
    for claim in ("name", "preferred_username", "email", "sub"):
        value = claims.get(claim)
        if isinstance(value, str) and value.strip():
            return value.strip()[:_LONGEST_NAME]
    return "Operator"
