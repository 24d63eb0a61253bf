"""Signing in from a terminal: the device authorization grant (RFC 8628) of a public client."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import urlsplit

import aiohttp
import msgspec
from typing_extensions import override

from relay.cli.operators.exits import NOT_SIGNED_IN
from relay.cli.running import FAILED, WRONG_CONFIGURATION, WRONG_SURROUNDINGS, Failure
from relay.identity.discovery import MAX_METADATA_BYTES, metadata_urls

DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_INTERVAL_SECONDS: Final = 5.0
"""RFC 8628 section 3.2; also by how much `slow_down` lengthens it (section 3.5)."""
LONGEST_SECONDS: Final = 3600.0

Told = TypeVar("Told")

_TIMEOUT: Final = aiohttp.ClientTimeout(total=20)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Endpoints(msgspec.Struct, frozen=True):
    """What is used of an issuer's metadata (RFC 8414, RFC 8628 section 4)."""

    issuer: str
    token_endpoint: str
    device_authorization_endpoint: str


class Granted(msgspec.Struct, frozen=True):
    """The tokens (RFC 6749 section 5.1)."""

    access_token: str
    token_type: str
    expires_in: float | None = None
    refresh_token: str | None = None
    scope: str | None = None

    @override
    def __repr__(self) -> str:
        return f"Granted(token_type={self.token_type!r}, scope={self.scope!r})"


class Invitation(msgspec.Struct, frozen=True):
    """Where a person goes with which code (RFC 8628 section 3.2). Times in seconds."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str | None = None
    interval: float = DEFAULT_INTERVAL_SECONDS

    @override
    def __repr__(self) -> str:
        return f"Invitation(verification_uri={self.verification_uri!r})"


class _Refused(msgspec.Struct, frozen=True):
    error: str
    error_description: str | None = None


class RefusedError(Exception):
    """The issuer says no, by a code of RFC 6749 or RFC 8628."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for: ``resource`` is whom the token is for (RFC 8707)."""

    client_id: str
    scope: str | None
    resource: str | None

    def form(self) -> dict[str, str]:
        members = {"client_id": self.client_id, "scope": self.scope, "resource": self.resource}
        return {name: value for name, value in members.items() if value}


def require_private(url: str, what: str) -> None:
    """Raise `Failure` for an address at which a token could be read on the way, or that is none."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise Failure(f"{what} is no address", WRONG_CONFIGURATION) from None
    if "@" in parts.netloc or parts.fragment:
        raise Failure(f"{what} has to be an address without a user and without #", WRONG_CONFIGURATION)
    if not (parts.scheme == "https" and host) and not (parts.scheme == "http" and host in _LOOPBACK):
        raise Failure(f"{what} {url}: has to be https (or http on this machine)", WRONG_CONFIGURATION)


class Issuer:
    """One issuer's endpoints, asked as a public client. ``pause`` waits for that many seconds."""

    def __init__(
        self,
        http: aiohttp.ClientSession,  # noqa: TID251 - a program of its own: nothing of the relay runs here
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = http
        self._pause = pause

    async def discover(self, issuer: str) -> Endpoints:
        """The endpoints by the issuer's metadata."""
        require_private(issuer, "the issuer")
        for url in metadata_urls(issuer):
            status, body = await self._exchange("GET", url, None)
            if status == 200:  # noqa: PLR2004
                return _endpoints(body, issuer)
        raise Failure(f"the issuer {issuer} has no metadata (RFC 8414): is that its exact name?", FAILED)

    async def begin(self, endpoints: Endpoints, wanted: Wanted) -> Invitation:
        """Ask for a code that a person takes to the issuer's page."""
        try:
            return await self._post(endpoints.device_authorization_endpoint, wanted.form(), Invitation)
        except RefusedError as refused:
            raise Failure(f"the issuer refuses to begin: {refused.code}", FAILED) from None

    async def finish(self, endpoints: Endpoints, wanted: Wanted, invitation: Invitation) -> Granted:
        """Wait until the person has agreed. Raises `Failure` when they do not, or not in time."""
        form = {**wanted.form(), "grant_type": DEVICE_CODE, "device_code": invitation.device_code}
        form.pop("scope", None)  # it was said at the beginning
        interval, waited = max(invitation.interval, 1.0), 0.0
        while waited + interval <= min(invitation.expires_in, LONGEST_SECONDS):
            await self._pause(interval)
            waited += interval
            try:
                return await self._post(endpoints.token_endpoint, form, Granted)
            except RefusedError as refused:
                if refused.code == "slow_down":
                    interval += DEFAULT_INTERVAL_SECONDS
                elif refused.code != "authorization_pending":
                    raise _ended(refused.code) from None
            except UnreachedError:
                interval += DEFAULT_INTERVAL_SECONDS  # RFC 8628 section 3.5: less often, rather than not at all
        raise _ended("expired_token")

    async def refresh(self, token_endpoint: str, client_id: str, refresh_token: str) -> Granted:
        """New tokens. Raises `RefusedError` when the old ones are over."""
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": refresh_token}
        return await self._post(token_endpoint, form, Granted)

    async def _post(self, url: str, form: Mapping[str, str], into: type[Told]) -> Told:
        status, body = await self._exchange("POST", url, form)
        if status == 200:  # noqa: PLR2004
            return _decoded(body, into, url)
        raise RefusedError(_decoded(body, _Refused, url).error)

    async def _exchange(self, method: str, url: str, form: Mapping[str, str] | None) -> tuple[int, bytes]:
        require_private(url, "the endpoint")
        try:
            async with self._http.request(
                method,
                url,
                data=form,
                headers={"Accept": "application/json"},
                timeout=_TIMEOUT,
                allow_redirects=False,  # what is sent here goes nowhere else
            ) as response:
                return response.status, await _read(response, url)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnreachedError(f"the issuer cannot be reached: {reason_of(error)}") from None


class UnreachedError(Failure):
    """Nobody answers at the issuer's address."""

    def __init__(self, message: str) -> None:
        super().__init__(message, WRONG_SURROUNDINGS)


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    """The whole answer, in however many pieces it comes: one read gives what has arrived."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_METADATA_BYTES:
            raise UnreachedError(f"{url} answered with more than an issuer has to say")
    return bytes(body)


def reason_of(error: Exception) -> str:
    """The kind of a failure, without what was sent."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted here; --ca-file FILE names the authority that signed it"
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__


def _endpoints(body: bytes, issuer: str) -> Endpoints:
    try:
        found = msgspec.json.decode(body, type=Endpoints)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Failure(f"the issuer {issuer} does not offer the device authorization grant (RFC 8628)", FAILED) from None
    if found.issuer != issuer:
        # RFC 8414 section 3.3: or one issuer could speak for another.
        raise Failure(f"the metadata at {issuer} is another issuer's", FAILED)
    return found


def _decoded(body: bytes, into: type[Told], url: str) -> Told:
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise UnreachedError(f"{url} answered with something else than OAuth") from None


def _ended(code: str) -> Failure:
    told = {
        "access_denied": "the sign-in was refused",
        "expired_token": "nobody signed in in time: begin again",
    }
    return Failure(told.get(code, f"the issuer ended the sign-in: {code}"), NOT_SIGNED_IN)
