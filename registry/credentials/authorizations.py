"""The Authorization of an attempt: who the relay is towards a specialist, by the modes of the registration."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

from registry.credentials.assertions import Purpose, SigningKey, client_assertion, owner_assertion, signing_key
from registry.credentials.failures import CredentialFailure
from registry.credentials.secret_files import SecretFiles, SecretUnusable
from registry.credentials.token_endpoint import (
    JWT_BEARER_GRANT,
    MAX_ANSWER_BYTES,
    AccessToken,
    Form,
    is_b64token,
    read_answer,
    request_body,
)
from registry.egress import Egress, EgressFailure
from registry.model import ClientCredentials, Credential, OwnerAssertion, StaticBearer

_FORM_HEADERS = {"content-type": "application/x-www-form-urlencoded"}
_LASTING = frozenset({"address_refused", "request_refused", "url_refused"})
"""Failures of the egress that stay until an operator changes the configuration."""


class Authorizations:
    """Values for the Authorization header, each for one attempt at one specialist.

    ``relay_issuer`` is the relay's public URL, under which it asserts owners. Tokens live in this object's memory
    only: a machine client's until shortly before it expires, an owner's for the one attempt that it was made for.
    """

    def __init__(self, egress: Egress, *, relay_issuer: str, now: Callable[[], float]) -> None:
        self._egress = egress
        self._relay_issuer = relay_issuer
        self._now = now
        self._keys = SecretFiles(signing_key)
        self._static = SecretFiles(static_token)
        self._flights: dict[ClientCredentials, _Flight] = {}

    async def header_for(
        self,
        credential: Credential,
        *,
        subject: str | None,
        purpose: Purpose,
        deadline: float,
        fresh: bool = False,
    ) -> str:
        """The header's value; raises CredentialFailure.

        ``deadline`` bounds everything, waiting for other callers included, in seconds from now. ``fresh`` says that
        the specialist refused the last value: a kept token is dropped. ``subject`` is needed by ``owner_assertion``.
        """
        try:
            async with asyncio.timeout(deadline):
                match credential:
                    case ClientCredentials():
                        value = await self._for_client(credential, deadline, fresh=fresh)
                    case OwnerAssertion():
                        value = await self._for_owner(credential, subject, purpose, deadline)
                    case StaticBearer():
                        value = await self._from_file(credential)
                    case _:
                        assert_never(credential)
        except TimeoutError:
            raise _unreachable("deadline_exceeded") from None
        return f"Bearer {value}"

    async def _for_client(self, credential: ClientCredentials, deadline: float, *, fresh: bool) -> str:
        flight = self._flights.setdefault(credential, _Flight(self._now))

        async def fetch() -> AccessToken:
            key = await self._key(credential.key_file)
            return await self._ask(credential, key, [("grant_type", "client_credentials")], deadline)

        return (await flight.token(fetch, fresh=fresh)).value

    async def _for_owner(
        self, credential: OwnerAssertion, subject: str | None, purpose: Purpose, deadline: float
    ) -> str:
        if subject is None:
            raise CredentialFailure("subject_unknown", temporary=False)
        key = await self._key(credential.key_file)
        assertion = owner_assertion(
            key,
            relay_issuer=self._relay_issuer,
            issuer=credential.issuer,
            client_id=credential.client_id,
            subject=subject,
            purpose=purpose,
            now=self._now(),
        )
        grant = [("grant_type", JWT_BEARER_GRANT), ("assertion", assertion)]
        return (await self._ask(credential, key, grant, deadline)).value

    async def _from_file(self, credential: StaticBearer) -> str:
        try:
            return await self._static.get(credential.token_file)
        except SecretUnusable as error:
            raise CredentialFailure("token_file_unreadable", temporary=False, hint=str(error)) from None

    async def _key(self, path: str) -> SigningKey:
        try:
            return await self._keys.get(path)
        except SecretUnusable as error:
            raise CredentialFailure("key_unreadable", temporary=False, hint=str(error)) from None

    async def _ask(
        self, credential: ClientCredentials | OwnerAssertion, key: SigningKey, grant: Form, deadline: float
    ) -> AccessToken:
        asked_at = self._now()
        proof = client_assertion(key, client_id=credential.client_id, issuer=credential.issuer, now=asked_at)
        body = request_body(grant, resource=credential.resource, scope=credential.scope, client_assertion=proof)
        try:
            answer = await self._egress.exchange(
                "POST",
                credential.token_endpoint,
                headers=_FORM_HEADERS,
                body=body,
                deadline=deadline,
                max_answer_bytes=MAX_ANSWER_BYTES,
            )
        except EgressFailure as failure:
            raise _unreachable(failure.kind) from None
        return read_answer(answer, asked_at=asked_at)


class _Flight:
    """The token of one client, fetched by one caller at a time while the others wait for what it brings.

    No task of its own: a caller that is cancelled takes its fetch with it, and the next in line starts another.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = asyncio.Lock()
        self._landed = 0
        self._outcome: AccessToken | CredentialFailure | None = None

    async def token(self, fetch: Callable[[], Awaitable[AccessToken]], *, fresh: bool) -> AccessToken:
        seen = self._landed
        if not fresh and isinstance(self._outcome, AccessToken) and self._now() < self._outcome.good_until:
            return self._outcome
        async with self._lock:
            if self._landed == seen:
                await self._fly(fetch)
            return self._result()

    async def _fly(self, fetch: Callable[[], Awaitable[AccessToken]]) -> None:
        self._outcome = None
        try:
            self._outcome = await fetch()
        except CredentialFailure as failure:
            self._outcome = failure.again()
        self._landed += 1

    def _result(self) -> AccessToken:
        match self._outcome:
            case AccessToken() as token:
                return token
            case CredentialFailure() as failure:
                raise failure.again()
            case None:
                raise AssertionError("a flight that landed has an outcome")


def _unreachable(kind: str) -> CredentialFailure:
    return CredentialFailure("token_endpoint_unreachable", temporary=kind not in _LASTING, cause=kind)


def static_token(raw: bytes) -> str:
    """The bearer token in a file; ValueError, which quotes nothing of it, for anything else."""
    try:
        token = raw.decode("ascii").rstrip("\r\n")
    except UnicodeDecodeError:
        token = ""
    if not is_b64token(token):
        raise ValueError("holds no bearer token (RFC 6750 section 2.1)")
    return token
