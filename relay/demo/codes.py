"""Authorization codes with PKCE (RFC 6749 section 4.1, RFC 7636), and the refresh tokens that follow them.

Both are kept in memory by their SHA-256, and are good once. Whoever shows a used code or refresh token ends what came
of it (RFC 9700 section 4.14.2).
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from joserfc.util import urlsafe_b64encode

from relay.clock import Clock
from relay.demo.accounts import PEOPLE, Accounts
from relay.demo.clients import OPENID, BrowserClient
from relay.demo.grants import OAuthError, Resources, authenticate
from relay.demo.minting import Grant

CODE_SECONDS: Final = 60
TOKEN_SECONDS: Final = 3600

_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person let a client have. ``challenge`` is that of PKCE with S256. Times are seconds since the epoch."""

    client: str
    redirect_uri: str
    challenge: str
    resource: str
    subject: str
    scopes: frozenset[str]
    signed_in_at: int
    expires_at: float
    nonce: str | None = field(default=None, repr=False)
    family: str = field(default_factory=secrets.token_hex)


class CodeGrants:
    """Hands out codes, and takes them at the token endpoint."""

    def __init__(
        self,
        clients: Mapping[str, BrowserClient],
        *,
        issuer: str,
        resources: Resources,
        accounts: Accounts,
        clock: Clock,
    ) -> None:
        self.clients = clients
        self._issuer = issuer
        self._resources = resources
        self._accounts = accounts
        self._clock = clock
        self._waiting: dict[bytes, Consent] = {}
        self._used: dict[bytes, str] = {}
        self._ended: set[str] = set()

    def issue(self, consent: Consent) -> str:
        """A code for what the person agreed to."""
        return self._keep(consent)

    async def redeem(self, form: Mapping[str, str]) -> Grant:
        """What a code brings; raises OAuthError."""
        client = await self._client(form)
        consent = self._take(form.get("code", ""))
        if consent.client != client.client_id or form.get("redirect_uri") != consent.redirect_uri:
            raise OAuthError("invalid_grant", "the code was given out to another client or address")
        verifier = form.get("code_verifier", "")
        if _VERIFIER.fullmatch(verifier) is None or not hmac.compare_digest(challenge(verifier), consent.challenge):
            raise OAuthError("invalid_grant", "code_verifier is not what the challenge was made of")
        return await self.grant(client, consent, form)

    async def refresh(self, form: Mapping[str, str]) -> Grant:
        """What a refresh token brings, a new one among it; raises OAuthError."""
        client = await self._client(form)
        consent = self._take(form.get("refresh_token", ""))
        if consent.client != client.client_id or consent.challenge:
            raise OAuthError("invalid_grant", "the refresh token was given out to another client")
        return await self.grant(client, replace(consent, nonce=None), form)

    async def _client(self, form: Mapping[str, str]) -> BrowserClient:
        client = self.clients.get(form.get("client_id", ""))
        if client is None:
            raise OAuthError("invalid_client", "name a registered client in client_id")
        if client.key is not None:
            await authenticate(form, client.key, issuer=self._issuer, accounts=self._accounts, now=self._clock.unix())
        return client

    async def grant(self, client: BrowserClient, consent: Consent, form: Mapping[str, str]) -> Grant:
        """What a person's consent brings, if they and the resource are still what they were; raises OAuthError."""
        if form.get("resource", consent.resource) != consent.resource:
            raise OAuthError("invalid_target", "the person agreed to a token for another resource")
        if not await self._accounts.is_active(consent.subject):
            raise OAuthError("invalid_grant", "there is no such person, or their access was revoked")
        about: dict[str, object] = {"auth_time": consent.signed_in_at}
        if consent.resource == self._resources.relay:
            about["may_act"] = {"sub": consent.resource}
        lasting = replace(consent, challenge="", expires_at=float("inf"))
        return Grant(
            subject=consent.subject,
            client_id=client.named,
            resource=consent.resource,
            scopes=consent.scopes - OPENID,
            seconds=TOKEN_SECONDS,
            about=about,
            identity=_identity(client, consent) if "openid" in consent.scopes else None,
            refresh_token=self._keep(lasting) if "offline_access" in consent.scopes else None,
        )

    def _keep(self, consent: Consent) -> str:
        now = self._clock.unix()
        for digest in [digest for digest, one in self._waiting.items() if one.expires_at <= now]:
            del self._waiting[digest]
        secret = secrets.token_urlsafe(32)
        self._waiting[_digest(secret)] = consent
        return secret

    def _take(self, secret: str) -> Consent:
        digest = _digest(secret)
        consent = self._waiting.pop(digest, None)
        if consent is None:
            self._ended.add(self._used.get(digest, ""))
            raise OAuthError("invalid_grant", "it was not given out by us, or was used before")
        self._used[digest] = consent.family
        if consent.family in self._ended or consent.expires_at <= self._clock.unix():
            raise OAuthError("invalid_grant", "it has expired, or one that came of it was stolen")
        return consent


def challenge(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636 section 4.2)."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode("ascii")


def _identity(client: BrowserClient, consent: Consent) -> dict[str, object]:
    """What an ID token says beside its times (OpenID Connect Core 1.0 section 2)."""
    claims: dict[str, object] = {
        "aud": client.client_id,
        "sub": consent.subject,
        "auth_time": consent.signed_in_at,
        "name": PEOPLE[consent.subject].name,
    }
    return claims if consent.nonce is None else {**claims, "nonce": consent.nonce}


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
