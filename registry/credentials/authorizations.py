"""The access of an attempt: who the relay is towards a specialist, by the modes of the registration."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import assert_never

from registry.credentials.access import Access
from registry.credentials.assertions import Purpose, SigningKey, owner_assertion
from registry.credentials.failures import CredentialFailure
from registry.credentials.flights import Flights
from registry.credentials.secret_files import SecretFiles, SecretUnusable
from registry.credentials.token_endpoint import JWT_BEARER_GRANT, Form, is_b64token
from registry.credentials.token_exchange import ACCESS_TOKEN_TYPE, as_to_the_subject, exchange_form, subject_token
from registry.credentials.token_requests import TokenRequests, Wish, unreachable
from registry.credentials.tokens import AccessToken
from registry.egress import Egress
from registry.model import ClientCredentials, Credential, OwnerAssertion, StaticBearer, TokenExchange

KEPT_CLIENTS = 1_024
TRUST_SECONDS = 1.0
"""How long the file of a static token is not looked at again, unless the specialist refuses what it held."""
KEPT_OWNERS = 4_096
"""Exchanged tokens, of one process: one for each owner and credential."""


class Authorizations:
    """Access to specialists, each for one attempt.

    ``relay_issuer`` is the relay's public URL, under which it asserts owners. Tokens live in this object's memory
    only: a machine client's and an exchanged one until shortly before it expires, an owner's by assertion for the one
    attempt that it was made for.
    """

    def __init__(self, egress: Egress, *, relay_issuer: str, now: Callable[[], float]) -> None:
        self._relay_issuer = relay_issuer
        self._now = now
        self._requests = TokenRequests(egress, now)
        self._static = SecretFiles(static_token, trust_seconds=TRUST_SECONDS)
        self._clients = Flights(now, capacity=KEPT_CLIENTS)
        self._owners = Flights(now, capacity=KEPT_OWNERS)

    async def access_for(
        self,
        credential: Credential,
        *,
        subject: str | None,
        purpose: Purpose,
        deadline: float,
        fresh: bool = False,
        subject_token: str | None = None,
        owner: int | None = None,
    ) -> Access:
        """What the credential gives access with; raises CredentialFailure.

        ``deadline`` bounds everything, waiting for other callers included, in seconds from now. ``fresh`` says that
        the specialist refused the last token: a kept one is dropped. ``subject`` is needed by ``owner_assertion``.
        ``token_exchange`` needs ``subject_token``, the live token of the owner whose number is ``owner``; without the
        number what it brings is not kept.
        """
        if isinstance(credential, StaticBearer) and not fresh and credential.client_certificate_file is None:
            known = self._static.trusted(credential.token_file)
            if known is not None:  # nothing to wait for, so no deadline to keep
                return Access(AccessToken(known, self._now()))
        try:
            async with asyncio.timeout(deadline):
                match credential:
                    case ClientCredentials():
                        token = await self._for_client(credential, deadline, fresh=fresh)
                    case OwnerAssertion():
                        token = await self._for_owner(credential, subject, purpose, deadline)
                    case TokenExchange():
                        token = await self._exchanged(credential, subject_token, owner, deadline, fresh=fresh)
                    case StaticBearer():
                        token = await self._from_file(credential, fresh=fresh)
                    case _:
                        assert_never(credential)
                return Access(token, await self._requests.identity(credential))
        except TimeoutError:
            raise unreachable("deadline_exceeded") from None

    async def _for_client(self, credential: ClientCredentials, deadline: float, *, fresh: bool) -> AccessToken:
        wish = Wish(lambda _key: [("grant_type", "client_credentials")])

        async def fetch() -> AccessToken:
            return await self._requests.token(credential, wish, deadline)

        return await self._clients.token(credential, fetch, fresh=fresh)

    async def _for_owner(
        self, credential: OwnerAssertion, subject: str | None, purpose: Purpose, deadline: float
    ) -> AccessToken:
        if subject is None:
            raise CredentialFailure("subject_unknown", temporary=False)

        def form(key: SigningKey) -> Form:
            assertion = owner_assertion(
                key,
                relay_issuer=self._relay_issuer,
                issuer=credential.issuer,
                client_id=credential.client_id,
                subject=subject,
                purpose=purpose,
                now=self._now(),
            )
            return [("grant_type", JWT_BEARER_GRANT), ("assertion", assertion)]

        return await self._requests.token(credential, Wish(form), deadline)

    async def _exchanged(
        self, credential: TokenExchange, live_token: str | None, owner: int | None, deadline: float, *, fresh: bool
    ) -> AccessToken:
        subject = subject_token(live_token, issuer=credential.issuer, now=self._now())
        wish = Wish(lambda _key: exchange_form(subject), issued_type=ACCESS_TOKEN_TYPE)

        async def fetch() -> AccessToken:
            try:
                token = await self._requests.token(credential, wish, deadline)
            except CredentialFailure as failure:
                raise as_to_the_subject(failure) from None
            # Whoever has signed out must not go on acting through us.
            return replace(token, good_until=min(token.good_until, subject.expires_at))

        if owner is None:
            return await fetch()
        by = hashlib.sha256(subject.value.encode()).digest()
        return await self._owners.token((owner, credential), fetch, fresh=fresh, by=by)

    async def _from_file(self, credential: StaticBearer, *, fresh: bool) -> AccessToken:
        try:
            value = await self._static.get(credential.token_file, fresh=fresh)
        except SecretUnusable as error:
            raise CredentialFailure("token_file_unreadable", temporary=False, hint=str(error)) from None
        return AccessToken(value, self._now())


def static_token(raw: bytes) -> str:
    """The bearer token in a file; ValueError, which quotes nothing of it, for anything else."""
    try:
        token = raw.decode("ascii").rstrip("\r\n")
    except UnicodeDecodeError:
        token = ""
    if not is_b64token(token):
        raise ValueError("holds no bearer token (RFC 6750 section 2.1)")
    return token
