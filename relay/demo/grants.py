"""The grants of the demonstration's token endpoint: who is asking, and what may they have?"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl

from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from joserfc.jwk import ECKey

from relay.clock import Clock
from relay.demo.accounts import MACHINE, PEOPLE, Accounts
from relay.demo.assertions import (
    AssertionRefused,
    RegisteredClient,
    check_client_assertion,
    check_owner_assertion,
    unverified_client_id,
)
from relay.demo.minting import Grant
from relay.demo.subject_tokens import ACCESS_TOKEN_TYPE, SubjectTokenRefused, check_subject_token

TOKEN_SECONDS = 300
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name of RFC 8693
CLIENT_CREDENTIALS = "client_credentials"

GRANTS = (CLIENT_CREDENTIALS, JWT_BEARER, TOKEN_EXCHANGE)

_LOCAL_ORIGIN = re.compile(r"https://localhost(:\d{1,5})?")
_MOST_PARAMETERS = 16

ErrorCode = Literal[
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "invalid_scope",
    "invalid_target",
    "unsupported_grant_type",
    "access_denied",
    "invalid_dpop_proof",
    "use_dpop_nonce",
    "authorization_pending",
    "slow_down",
    "expired_token",
]


class OAuthError(Exception):
    """An answer of RFC 6749 section 5.2. The description is ours and quotes nothing of the request."""

    def __init__(self, code: ErrorCode, description: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{code}: {description}")
        self.code = code
        self.description = description
        self.headers = headers
        self.status = {"invalid_client": 401, "access_denied": 403}.get(code, 400)


def read_form(body: bytes) -> Mapping[str, str]:
    """The parameters of a request, each there once and not empty (RFC 6749 section 3.2)."""
    try:
        pairs = parse_qsl(body.decode("ascii"), strict_parsing=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
    except ValueError:
        raise OAuthError("invalid_request", "the body is no form") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise OAuthError("invalid_request", "a parameter stands there twice")
    return form


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Where tokens may be used: at the relay, and at ``origins``; none given, at any https origin named localhost."""

    relay: str
    origins: frozenset[str] = frozenset()

    def check(self, resource: str | None) -> str:
        """The resource (RFC 8707), if tokens for it are given out."""
        if resource is None:
            raise OAuthError("invalid_target", "say which resource the token is for")
        known = resource in self.origins if self.origins else _LOCAL_ORIGIN.fullmatch(resource) is not None
        if not known and resource != self.relay:
            raise OAuthError("invalid_target", "no tokens are given out for this resource")
        return resource


class Grants:
    """Decides on requests to the token endpoint.

    ``issuer`` is the audience that assertions must have, ``key`` the one that its tokens are signed with.
    """

    def __init__(
        self,
        *,
        issuer: str,
        key: ECKey,
        client: RegisteredClient,
        resources: Resources,
        accounts: Accounts,
        clock: Clock,
    ) -> None:
        self._issuer = issuer
        self._key = key
        self._client = client
        self._resources = resources
        self._accounts = accounts
        self._clock = clock

    async def decide(self, form: Mapping[str, str]) -> Grant:
        """What the request is granted; raises OAuthError."""
        await authenticate(form, self._client, issuer=self._issuer, accounts=self._accounts, now=self._clock.unix())
        match form.get("grant_type"):
            case "client_credentials":
                return self._for_client(form)
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                return await self._for_owner(form)
            case "urn:ietf:params:oauth:grant-type:token-exchange":
                return await self._exchange(form)
            case _:
                raise OAuthError("unsupported_grant_type", f"use {', '.join(GRANTS)}")

    def _for_client(self, form: Mapping[str, str]) -> Grant:
        return Grant(
            subject=MACHINE.subject,
            client_id=self._client.client_id,
            resource=self._resources.check(form.get("resource")),
            scopes=granted_scopes(form.get("scope"), MACHINE.scopes),
            seconds=TOKEN_SECONDS,
        )

    async def _for_owner(self, form: Mapping[str, str]) -> Grant:
        now = self._clock.unix()
        try:
            asserted = check_owner_assertion(form.get("assertion", ""), self._client, audience=self._issuer, now=now)
        except AssertionRefused as error:
            raise OAuthError("invalid_grant", str(error)) from None
        if not await self._accounts.is_active(asserted.subject):
            raise OAuthError("invalid_grant", "there is no such person, or their access was revoked")
        grant = Grant(
            subject=asserted.subject,
            client_id=self._client.client_id,
            resource=self._resources.check(form.get("resource")),
            scopes=granted_scopes(form.get("scope"), PEOPLE[asserted.subject].scopes),
            seconds=TOKEN_SECONDS,
            about={"act": {"sub": asserted.issuer}, "authorization_details": list(asserted.details)},
        )
        # Last, so that a request that is refused for another reason may be corrected and sent again.
        if not await self._accounts.use_once(asserted, now=now):
            raise OAuthError("invalid_grant", "the assertion was used before")
        return grant

    async def _exchange(self, form: Mapping[str, str]) -> Grant:
        _check_kinds(form)
        now = self._clock.unix()
        token = form.get("subject_token", "")
        try:
            present = check_subject_token(token, self._key, self._client, issuer=self._issuer, now=now)
        except SubjectTokenRefused as error:
            # RFC 8693 section 2.2.2
            raise OAuthError("invalid_request", str(error)) from None
        if not await self._accounts.is_active(present.subject):
            raise OAuthError("invalid_request", "there is no such person, or their access was revoked")
        return Grant(
            subject=present.subject,
            client_id=self._client.client_id,
            resource=self._resources.check(form.get("resource")),
            scopes=granted_scopes(form.get("scope"), PEOPLE[present.subject].scopes & present.scopes),
            seconds=min(TOKEN_SECONDS, int(present.expires_at - now)),
            about={"act": {"sub": present.actor}},
            issued_type=ACCESS_TOKEN_TYPE,
        )


async def authenticate(
    form: Mapping[str, str], client: RegisteredClient, *, issuer: str, accounts: Accounts, now: float
) -> None:
    """Raise OAuthError unless the request proves to be this client's, by ``private_key_jwt`` (RFC 7523)."""
    if form.get("client_assertion_type") != JWTBearerClientAssertion.CLIENT_ASSERTION_TYPE:
        raise OAuthError("invalid_client", "authenticate by private_key_jwt")
    assertion = form.get("client_assertion", "")
    if {unverified_client_id(assertion), form.get("client_id", client.client_id)} != {client.client_id}:
        raise OAuthError("invalid_client", "the client is not registered")
    try:
        proof = check_client_assertion(assertion, client, audience=issuer, now=now)
    except AssertionRefused as error:
        raise OAuthError("invalid_client", str(error)) from None
    if not await accounts.use_once(proof, now=now):
        raise OAuthError("invalid_client", "the assertion was used before")


def _check_kinds(form: Mapping[str, str]) -> None:
    """Access tokens for access tokens: nothing else is exchanged (RFC 8693 section 2.1)."""
    if form.get("subject_token_type") != ACCESS_TOKEN_TYPE:
        raise OAuthError("invalid_request", f"subject_token_type has to be {ACCESS_TOKEN_TYPE}")
    if form.get("requested_token_type", ACCESS_TOKEN_TYPE) != ACCESS_TOKEN_TYPE:
        raise OAuthError("invalid_request", f"requested_token_type may be {ACCESS_TOKEN_TYPE}")
    if not form.keys().isdisjoint({"actor_token", "actor_token_type", "audience"}):
        raise OAuthError("invalid_request", "the client is the actor, and resource says where the token is for")


def granted_scopes(requested: str | None, allowed: frozenset[str]) -> frozenset[str]:
    """The scopes that were asked for, or all that are allowed where none were."""
    if requested is None:
        return allowed
    scopes = frozenset(requested.split(" "))
    if not scopes <= allowed:
        raise OAuthError("invalid_scope", "a scope is unknown or not allowed here")
    return scopes
