"""A sign-in from its beginning, a link, to its end, the issuer's answer."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc.util import urlsafe_b64decode, urlsafe_b64encode

from relay.clock import Clock
from relay.errors import Refusal
from relay.identity.model import Principal
from relay.identity.owner_keys import OwnerKeys
from relay.identity.refusals import insufficient_scope
from relay.identity.scopes import holds
from relay.identity.tokens import Verifier
from relay.web.console.sign_in.identities import Identities, Identity
from relay.web.console.sign_in.model import Begun, SignInFailed, Tokens, inside
from relay.web.console.sign_in.provider import Providers

PATIENCE_SECONDS: Final = 600
"""How long somebody may take at the issuer."""

_PURPOSE: Final = "console sign-in"
_OURS: Final = "This sign-in was not begun in this browser, or too long ago. Start again."
_ADVICE: Final[Mapping[str, str]] = {
    "access_denied": "Nobody signed in, or the issuer did not allow it.",
    "login_required": "The issuer wants you to sign in there first.",
    "temporarily_unavailable": "The issuer is busy. Try again in a moment.",
    "server_error": "The issuer failed. Try again in a moment.",
}
"""What is shown for an error of RFC 6749 section 4.1.2.1 or OpenID Connect; the issuer's own words are not."""

_log = structlog.get_logger("relay.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Somebody who may operate the relay, with the tokens of their session, and where they wanted to go."""

    principal: Principal
    identity: Identity
    tokens: Tokens
    following: str


class SigningIn:
    """Takes people to the issuer and back."""

    def __init__(
        self, providers: Providers, identities: Identities, verifier: Verifier, keys: OwnerKeys, clock: Clock
    ) -> None:
        self._providers = providers
        self._identities = identities
        self._verifier = verifier
        self._keys = keys
        self._clock = clock

    async def begin(self, following: str | None, *, again: bool) -> tuple[str, str]:
        """The issuer's address to go to, and what the browser has to keep meanwhile. Raises `SignInFailed`.

        ``again``: the issuer is to ask even somebody who is signed in there.
        """
        ours = self._providers.registration
        provider = await self._providers.provider()
        begun = Begun(
            state=secrets.token_urlsafe(32),
            nonce=secrets.token_urlsafe(32),
            verifier=secrets.token_urlsafe(48),
            following=inside(following),
            at=self._clock.unix(),
        )
        wishes = {
            "resource": ours.resource,
            "max_age": None if ours.max_age_seconds is None else str(ours.max_age_seconds),
            "acr_values": " ".join(ours.acr_values) or None,
            "prompt": "login" if again else None,
        }
        address: str = prepare_grant_uri(
            provider.authorization_endpoint,
            ours.client_id,
            "code",
            redirect_uri=ours.redirect_uri,
            scope=ours.scope,
            state=begun.state,
            nonce=begun.nonce,
            code_challenge=create_s256_code_challenge(begun.verifier),
            code_challenge_method="S256",
            **{name: wish for name, wish in wishes.items() if wish is not None},
        )
        return address, self._kept(begun)

    async def complete(self, answer: Mapping[str, str], kept: str | None) -> SignedIn:
        """Whoever the issuer's answer brings. Raises `SignInFailed`, or `Refusal` for who may not operate the relay."""
        begun = self._begun(kept)
        # RFC 6749 section 10.12: an answer that this browser did not ask for is somebody else's.
        if not hmac.compare_digest(answer.get("state", "").encode(), begun.state.encode()):
            raise SignInFailed("wrong_state", _OURS)
        await self._require_own_issuer(answer)
        if "error" in answer:
            known = answer["error"] if answer["error"] in _ADVICE else "unknown_error"
            raise SignInFailed(known, _ADVICE.get(known, "The issuer refused the sign-in."), status=403)
        tokens = await self._providers.redeem(answer.get("code", ""), begun.verifier)
        identity = await self._identities.of(tokens, nonce=begun.nonce)
        principal = await self.operator(tokens.access)
        return SignedIn(principal=principal, identity=identity, tokens=tokens, following=begun.following)

    async def operator(self, access_token: str) -> Principal:
        """The person whom the API would see behind this token, who may read what operators read.

        Raises `SignInFailed` where it is no token for this relay, `Refusal` where it is not an operator's.
        """
        try:
            principal = await self._verifier.verify([f"Bearer {access_token}"])
        except Refusal as refusal:
            if refusal.code != "unauthenticated":
                raise
            advice = "The issuer gave a token that is not for this relay. Whoever runs it has to look into that."
            raise SignInFailed("token_not_for_relay", advice, status=502) from None
        if principal.issuer != self._providers.registration.issuer:
            raise SignInFailed("token_of_another_issuer", _OURS, status=502)
        if not holds(principal, "operator:read"):
            raise insufficient_scope("operator:read", "The issuer does not let you operate this relay.")
        return principal

    async def _require_own_issuer(self, answer: Mapping[str, str]) -> None:
        """RFC 9207 section 2.4: where the issuer names itself, an answer that does not is another's."""
        provider = await self._providers.provider()
        ours = self._providers.registration.issuer
        if answer.get("iss", None if provider.names_itself else ours) != ours:
            raise SignInFailed("wrong_issuer", "The answer came from another issuer. Start again.")

    def _kept(self, begun: Begun) -> str:
        kid, sealed = self._keys.enclose(msgspec.json.encode(begun), _PURPOSE)
        return f"{kid}.{urlsafe_b64encode(sealed).decode('ascii')}"

    def _begun(self, kept: str | None) -> Begun:
        kid, _, text = (kept or "").partition(".")
        try:
            told = self._keys.disclose(urlsafe_b64decode(text.encode("ascii")), kid, _PURPOSE)
        except ValueError:
            told = None
        begun = None if told is None else msgspec.json.decode(told, type=Begun)
        if begun is None or not 0 <= self._clock.unix() - begun.at <= PATIENCE_SECONDS:
            raise SignInFailed("not_begun_here", _OURS)
        return begun
