"""The issuer, asked over the egress: where its endpoints are, and for tokens."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode

import structlog
from authlib.oauth2 import ClientAuth
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion

from registry import strict_json
from registry.credentials.assertions import client_assertion, signing_key
from registry.credentials.secret_files import SecretFiles, SecretUnusable, client_secret
from registry.credentials.token_endpoint import is_b64token
from registry.egress import Egress, EgressFailure, Exchange
from relay.clock import Clock
from relay.identity import discovery
from relay.web.console.sign_in.model import Provider, Registration, SignInFailed, Tokens

DEADLINE_SECONDS: Final = 10.0
KEPT_SECONDS: Final = 600.0
RETRY_SECONDS: Final = 5.0

_OK: Final = 200
_FORM: Final = "application/x-www-form-urlencoded"
_UNREACHABLE: Final = "The issuer cannot be reached right now, or its answer cannot be used. Try again in a moment."
_ODD: Final = "The issuer's answer cannot be used. Whoever runs this relay finds the reason in its log."

_log = structlog.get_logger("relay.console")


class Providers:
    """The issuer that operators sign in at."""

    def __init__(self, registration: Registration, egress: Egress, clock: Clock) -> None:
        self.registration = registration
        self._egress = egress
        self._clock = clock
        self._keys = SecretFiles(signing_key)
        self._secrets = SecretFiles(client_secret)
        self._turn = asyncio.Lock()
        self._found: tuple[float, Provider] | None = None
        self._failed: tuple[float, SignInFailed] | None = None

    async def provider(self) -> Provider:
        """Where the issuer's endpoints are, looked up now and then. Raises `SignInFailed`.

        Once for all who wait, and not again at once where it failed: anybody may begin a sign-in.
        """
        async with self._turn:
            now = self._clock.monotonic()
            if self._found is not None and now - self._found[0] <= KEPT_SECONDS:
                return self._found[1]
            if self._failed is not None and now - self._failed[0] < RETRY_SECONDS:
                told = self._failed[1]
                raise SignInFailed(told.reason, told.advice, status=told.status)
            try:
                self._found = now, await self.look_up()
            except SignInFailed as failed:
                _log.warning("console_issuer_unusable", issuer=self.registration.issuer, problem=failed.reason)
                self._failed = now, failed
                raise
            return self._found[1]

    async def redeem(self, code: str, verifier: str) -> Tokens:
        """What the code brings. Raises `SignInFailed`."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.registration.redirect_uri,
            "code_verifier": verifier,
        }
        return await self._ask(form)

    async def refresh(self, token: str) -> Tokens:
        """New tokens for a refresh token. Raises `SignInFailed`."""
        tokens = await self._ask({"grant_type": "refresh_token", "refresh_token": token})
        # RFC 6749 section 6: without a new one, the old one goes on.
        return Tokens(access=tokens.access, refresh=tokens.refresh or token, identity=tokens.identity)

    async def look_up(self) -> Provider:
        """What the issuer's metadata says now. Raises `SignInFailed`."""
        problem = "no_metadata"
        # OpenID Connect's own first: it is its sign-in that is asked for.
        for url in reversed(list(discovery.metadata_urls(self.registration.issuer))):
            try:
                answer = await self._egress.exchange("GET", url, headers={}, deadline=DEADLINE_SECONDS)
                if answer.status == _OK and answer.complete:
                    return _provider(answer.body, self.registration)
                problem = f"status_{answer.status}"
            except EgressFailure as failure:
                problem = failure.kind
            except discovery.MetadataUnusable as unusable:
                problem = unusable.reason
        raise SignInFailed(problem, _UNREACHABLE, status=503)

    async def _ask(self, form: Mapping[str, str]) -> Tokens:
        provider = await self.provider()
        sent = dict(form) if self.registration.resource is None else {**form, "resource": self.registration.resource}
        headers, body = await self._authenticated(provider, sent)
        try:
            answer = await self._egress.exchange(
                "POST", provider.token_endpoint, headers=headers, body=body, deadline=DEADLINE_SECONDS
            )
        except EgressFailure as failure:
            _log.warning("console_issuer_unusable", issuer=self.registration.issuer, problem=failure.kind)
            raise SignInFailed(failure.kind, _UNREACHABLE, status=503) from None
        return _tokens(answer)

    async def _authenticated(self, provider: Provider, form: dict[str, str]) -> tuple[dict[str, str], bytes]:
        """The request with the client's proof of itself (RFC 6749 section 2.3, RFC 7523)."""
        ours = self.registration
        headers = {"content-type": _FORM}
        try:
            if ours.key_file is not None:
                key = await self._keys.get(ours.key_file)
                proof = client_assertion(key, client_id=ours.client_id, issuer=ours.issuer, now=self._clock.unix())
                form |= {"client_assertion_type": JWTBearerClientAssertion.CLIENT_ASSERTION_TYPE}
                form |= {"client_assertion": proof}
            secret = None if ours.secret_file is None else await self._secrets.get(ours.secret_file)
        except SecretUnusable as error:
            _log.error("console_secret_unusable", problem=str(error))
            raise SignInFailed("secret_unusable", _ODD, status=500) from None
        if secret is not None and provider.takes_basic:
            # RFC 6749 section 2.3.1: each encoded as in a form first.
            client = ClientAuth(quote(ours.client_id, safe=""), quote(secret, safe=""), "client_secret_basic")
            _, headers, _ = client.prepare("POST", provider.token_endpoint, headers, "")
        else:
            form |= {"client_id": ours.client_id} | ({} if secret is None else {"client_secret": secret})
        return headers, urlencode(form).encode("ascii")


def _provider(document: bytes, ours: Registration) -> Provider:
    """The issuer by its metadata; endpoints that are configured stand. Raises `discovery.MetadataUnusable`."""
    metadata = discovery.trusted(document, ours.issuer)
    methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    challenges = metadata.get("code_challenge_methods_supported")
    if isinstance(challenges, list) and "S256" not in challenges:
        raise discovery.MetadataUnusable("no_pkce_with_s256")
    return Provider(
        authorization_endpoint=ours.authorization_endpoint
        or discovery.endpoint(document, ours.issuer, "authorization_endpoint"),
        token_endpoint=ours.token_endpoint or discovery.endpoint(document, ours.issuer, "token_endpoint"),
        names_itself=metadata.get("authorization_response_iss_parameter_supported") is True,
        takes_basic="client_secret_basic" in methods or "client_secret_post" not in methods,
    )


def _tokens(answer: Exchange) -> Tokens:
    """RFC 6749 section 5, OpenID Connect Core 1.0 section 3.1.3.3."""
    members = _members(answer)
    if answer.status != _OK:
        problem = _known(members.get("error"))
        _log.warning("console_token_refused", status=answer.status, problem=problem)
        raise SignInFailed(problem, _ODD if problem != "invalid_grant" else "This sign-in is used up. Start again.")
    kind, access = members.get("token_type"), members.get("access_token")
    if not isinstance(kind, str) or kind.lower() != "bearer" or not isinstance(access, str) or not is_b64token(access):
        raise SignInFailed("malformed_token_answer", _ODD, status=502)
    return Tokens(access=access, refresh=_text(members, "refresh_token"), identity=_text(members, "id_token"))


def _members(answer: Exchange) -> dict[str, Any]:
    try:
        members = strict_json.loads(answer.body) if answer.complete else None
    except strict_json.NotStrictJson:
        members = None
    if not isinstance(members, dict):
        raise SignInFailed(f"token_answer_no_json_{answer.status}", _ODD, status=502)
    return members


def _text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    return value if isinstance(value, str) and value else None


_ERRORS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
        "invalid_target",
    }
)


def _known(error: object) -> str:
    """The error if it is one of the RFC's: anything else may hold anything, and goes into no log."""
    return error if isinstance(error, str) and error in _ERRORS else "unknown_error"
