"""One request and its answer: the token, its renewal, repeats, and refusals as errors."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from yarl import URL

from relay.client.errors import AnswerError, ClientError, RelayError, TokenError, UnreachableError
from relay.client.model import Problem, extras_of
from relay.client.repeats import retry_after_seconds, tries

GetToken: TypeAlias = Callable[[], Awaitable[str]]
"""Gives a token for the relay that is good now. It is kept until the relay refuses it, and asked for again then.

What it raises ends the call: as `TokenError` where an issuer could not be reached, otherwise as it is."""

Answer = TypeVar("Answer")

PROBLEM_TYPE = "application/problem+json"


def path(*segments: str) -> str:
    """A path of segments, each percent-encoded. ValueError for what no path can name."""
    for segment in segments:
        if segment in {"", ".", ".."}:
            raise ValueError(f"{segment!r} cannot stand in a path")
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent, the same bytes at every try. ``wait``: how many seconds the relay is asked to take for it."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    wait: int = 0


class Tokens:
    """The token in use. Calls that are refused at the same time ask for one new token together."""

    def __init__(self, get_token: GetToken) -> None:
        self._get = get_token
        self._token: str | None = None
        self._asking = asyncio.Lock()

    async def current(self) -> str:
        async with self._asking:
            if self._token is None:
                self._token = await self._asked()
            return self._token

    async def _asked(self) -> str:
        try:
            return await self._get()
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            # Not to be taken for the relay's own connection, which is tried again.
            raise TokenError(f"no token for the relay: {type(error).__name__}") from error

    def forget(self) -> None:
        """Ask for a new one at the next request."""
        self._token = None

    def refused(self, token: str) -> None:
        """Forget this token, unless another has taken its place."""
        if self._token == token:
            self._token = None


class Calling:
    """Requests to one relay, as whoever the tokens stand for."""

    def __init__(
        self,
        origin: str,
        tokens: Tokens,
        http: aiohttp.ClientSession,  # noqa: TID251 - the client's, or its caller's
        *,
        try_seconds: float,
    ) -> None:
        self._origin = origin
        self._tokens = tokens
        self._http = http
        self._try_seconds = try_seconds

    async def call(self, request: Request, into: type[Answer], *, seconds: float) -> Answer:
        """The answer, after as many tries as the deadline allows. What the relay was asked to wait comes on top.

        Raises `RelayError`, `UnreachableError`, `AnswerError` or `TokenError`.
        """
        timeout = aiohttp.ClientTimeout(total=self._try_seconds + request.wait)

        async def once() -> Answer:
            async with await self.open(request, timeout) as response:
                body = await response.read()
            return _decoded(response.status, body, into)

        return await self.repeated(once, seconds=seconds + request.wait)

    async def repeated(self, once: Callable[[], Awaitable[Answer]], *, seconds: float) -> Answer:
        """What one of the tries comes to, the last of which begins before the deadline."""
        try:
            async with asyncio.timeout(seconds):
                return await tries(seconds)(once)
        except ClientError:
            raise
        except (aiohttp.ClientError, TimeoutError) as error:
            # The kind alone: the text of an error may quote what was sent.
            raise UnreachableError(f"no answer from {self._origin}: {type(error).__name__}") from None

    async def open(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """One try: an answer that is no refusal, its body unread, which the caller closes.

        On a 401 a new token is tried, once.
        """
        response = await self._send(request, timeout)
        if response.status == HTTPStatus.UNAUTHORIZED:
            response.release()
            response = await self._send(request, timeout)
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            async with response:
                raise await _refusal(response)
        return response

    async def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        token = await self._tokens.current()
        target = f"{self._origin}{request.path}" + (f"?{urlencode(request.query)}" if request.query else "")
        headers = {"Authorization": f"Bearer {token}", "Accept": f"application/json, {PROBLEM_TYPE}", **request.headers}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        response = await self._http.request(
            request.method,
            URL(target, encoded=True),
            headers=headers,
            data=request.body,
            timeout=timeout,
            allow_redirects=False,  # a token goes to the relay and nowhere else
            raise_for_status=False,  # a session of the caller's may say otherwise, and a refusal has a body
        )
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._tokens.refused(token)
        return response

    def renew(self) -> None:
        """Ask for a new token at the next request."""
        self._tokens.forget()


async def _refusal(response: aiohttp.ClientResponse) -> RelayError | AnswerError:
    body = await response.read()
    asked = retry_after_seconds(response.headers.get("Retry-After"))
    try:
        # Decoded whatever its media type says: a proxy may change that, and has no such document.
        problem = msgspec.json.decode(body, type=Problem)
        extras = extras_of(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        unknown = AnswerError(response.status, "not an answer of a relay")
        unknown.retry_after = asked
        return unknown
    return RelayError(
        problem.code, response.status, problem.detail, errors=problem.errors, extras=extras, retry_after=asked
    )


def _decoded(status: int, body: bytes, into: type[Answer]) -> Answer:
    try:
        return msgspec.json.decode(body, type=into)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise AnswerError(status, f"not the {into} that was expected") from None
