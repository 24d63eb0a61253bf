"""The one door outward: every connection that the relay opens is opened here.

The name is looked up for every exchange, and no answer is kept. A connection may be kept for the next exchange with
the same origin, but carries it only if it leads to one of the addresses that this very lookup found and the policy
lets pass: a name that has moved, or that is being rebound, takes effect at once. Idle connections are closed after
`_KEEP_SECONDS`, which is less than the servers that close first (Node.js: 5 s) take, because a request that meets
a closing connection counts as possibly received.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import ClientResponse, ClientSession  # noqa: TID251 - this is the one door
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDictProxy
from yarl import URL

from registry.addresses import is_address, is_numeric
from registry.dialling import (
    PROGRESS,
    ClientIdentity,
    EgressPolicy,
    Found,
    KeptConnectionUnfit,
    Names,
    Phase,
    Progress,
    Request,
    TrustStore,
    socket_opener,
)
from registry.egress_failures import EgressFailure, failure_of
from registry.names import Lookups

__all__ = ["ClientIdentity", "Egress", "EgressFailure", "EgressPolicy", "Exchange", "Phase"]

_KEEP_SECONDS = 4.0
_MOST_HEADERS = 64
_LONGEST_HEADER = 8_190
_USER_AGENT = f"feedback-relay/{version('feedback-relay')}"
_METHOD = re.compile(r"[A-Z]{1,16}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,64}")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]{0,16384}")
_TARGET = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:[/?][A-Za-z0-9._~!$&'()*+,;=:@/?%-]*)?")
_LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_NOT_THE_CALLERS = frozenset(
    {"accept-encoding", "connection", "content-encoding", "content-length", "cookie", "expect", "forwarded", "host"}
    | {"keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
    | {"user-agent", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"}
)
"""Headers that frame the message, or that belong to an inbound request and never to one of ours."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What came back. Header names are lower-case; a repeated header keeps its first value.

    ``complete`` is false where ``body`` was cut off at the size cap, or is encoded and was left so: neither is
    evidence of anything.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool


class Egress:
    """The only client session. Open it in the loop that uses it, and close it after the last exchange."""

    def __init__(self, policy: EgressPolicy, *, resolver: AbstractResolver | None = None) -> None:
        """Reads the trusted certificates: raises OSError or ssl.SSLError when ``policy.ca_file`` is unusable."""
        self._policy = policy
        self._resolver = resolver
        self._trust: ssl.SSLContext = TrustStore.build(policy.ca_file)
        self._session: ClientSession | None = None
        self._names: Names | None = None

    async def open(self) -> Self:
        self._names = Names(self._resolver or Lookups(), self._policy)
        connector = aiohttp.TCPConnector(
            ssl=self._trust,
            resolver=Found(),
            use_dns_cache=False,
            socket_factory=socket_opener(self._policy),
            keepalive_timeout=_KEEP_SECONDS,
            limit=0,  # callers bound what is in flight per agent; a shared limit would let one starve the others
        )
        self._session = ClientSession(
            connector=connector,
            request_class=Request,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": _USER_AGENT, "Accept": "application/json", "Accept-Encoding": "identity"},
            skip_auto_headers=("Content-Type",),
            auto_decompress=False,
            trust_env=False,
            timeout=aiohttp.ClientTimeout(),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            max_headers=_MOST_HEADERS,
        )
        return self

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        if self._names is not None:
            await self._names.close()
        self._session = self._names = None

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def exchange(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        deadline: float,
        max_answer_bytes: int = 65_536,
        on_sent: Callable[[], None] | None = None,
        client_identity: ClientIdentity | None = None,
    ) -> Exchange:
        """Send one request and read its answer, whatever its status: a redirect is an answer and is not followed.

        ``deadline`` is in seconds from now and covers everything from the lookup to the last byte of the body.
        ``on_sent`` is called once, when the whole request is with the transport. A server that asks for a certificate
        gets ``client_identity``'s, or none. Raises EgressFailure; being cancelled raises CancelledError as usual.
        """
        session, names = self._session, self._names
        if session is None or names is None:
            raise RuntimeError("the egress is not open")
        target = self._target(url)
        _check_request(method, headers)
        progress = Progress(plain=target.scheme == "http", on_sent=on_sent)
        token = PROGRESS.set(progress)
        try:
            async with asyncio.timeout(deadline):
                await names.find(str(target.raw_host), target.port or 0)
                trust = self._trust if client_identity is None else client_identity.trust
                send = partial(session.request, method, target, headers=headers, data=body or None, ssl=trust)
                return await _answer(send, progress, max_answer_bytes)
        except Exception as error:  # noqa: BLE001 - whatever happened, the caller must learn whether bytes had left
            # Not chained: the exceptions below may quote the request or the answer.
            raise failure_of(error, progress) from None
        finally:
            PROGRESS.reset(token)

    def client_identity(self, certificate_file: str, key_file: str) -> ClientIdentity:
        """Read a certificate (PEM, with its chain) and its key. Reads files: call it in a thread.

        Raises OSError or ssl.SSLError for files that are unusable or of two pairs.
        """
        trust = TrustStore.build(self._policy.ca_file)
        trust.present(certificate_file, key_file)
        return ClientIdentity(trust)

    def _target(self, url: str) -> URL:
        target = _parsed(url)
        if target is None:
            raise EgressFailure("url_refused", "resolve", detail="not an absolute https URL, percent-encoded")
        host = str(target.raw_host)
        if is_numeric(host) and not is_address(host):
            raise EgressFailure("address_refused", "resolve", detail="the host is an address in disguise")
        if target.scheme == "http" and not (self._policy.development and host in _LOCAL_HOSTS):
            raise EgressFailure("url_refused", "resolve", detail="plain http is for loopback in development only")
        return target


def _parsed(url: str) -> URL | None:
    with suppress(ValueError):
        target = URL(url, encoded=True) if _TARGET.fullmatch(url) else URL()
        return target if target.raw_host else None
    return None


def _check_request(method: str, headers: Mapping[str, str]) -> None:
    """A value that could end its line, or a header that is not the caller's to set, stops the request."""
    if _METHOD.fullmatch(method) is None:
        raise EgressFailure("request_refused", "resolve", detail="not a method")
    if len({name.lower() for name in headers}) != len(headers):
        raise EgressFailure("request_refused", "resolve", detail="a header is given twice")
    for name, value in headers.items():
        if _HEADER_NAME.fullmatch(name) is None or name.lower() in _NOT_THE_CALLERS:
            raise EgressFailure("request_refused", "resolve", detail="a header that must not go out")
        if _HEADER_VALUE.fullmatch(value) is None:
            raise EgressFailure("request_refused", "resolve", detail=f"the value of {name} is not printable ASCII")


async def _answer(
    send: Callable[..., AbstractAsyncContextManager[ClientResponse]], progress: Progress, limit: int
) -> Exchange:
    while True:
        try:
            async with send(allow_redirects=False) as response:
                progress.read_body(response.status)
                content, whole = await _read(response.content, limit)
                complete = whole and not _is_encoded(response.headers)
                return Exchange(response.status, _plain_headers(response.headers), content, complete)
        except KeptConnectionUnfit:
            continue  # every turn closes a kept connection, until another fits or a new one is dialled


async def _read(content: aiohttp.StreamReader, limit: int) -> tuple[bytes, bool]:
    """At most ``limit`` bytes, and whether they are all there were. What lies beyond is never read."""
    body = bytearray()
    while len(body) <= limit:
        chunk = await content.readany()
        if not chunk:
            return bytes(body), True
        body += chunk
    return bytes(body[:limit]), False


def _is_encoded(headers: CIMultiDictProxy[str]) -> bool:
    """Whether the body is in a coding that we did not ask for (RFC 9110 section 8.4, RFC 9112 section 7)."""
    content = {
        coding.strip().lower() for value in headers.getall("Content-Encoding", ()) for coding in value.split(",")
    }
    transfer = {
        coding.strip().lower() for value in headers.getall("Transfer-Encoding", ()) for coding in value.split(",")
    }
    return not (content <= {"identity", ""} and transfer <= {"chunked", "identity", ""})


def _plain_headers(headers: CIMultiDictProxy[str]) -> Mapping[str, str]:
    plain: dict[str, str] = {}
    for name, value in headers.items():
        # Bytes that are not UTF-8 arrive as lone surrogates, which neither a log nor a database takes.
        plain.setdefault(name.lower(), value.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    return plain
