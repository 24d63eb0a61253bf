"""What happens between an approved origin and a connection to it: every address is judged, twice.

`CheckedNames` judges every address of an answer before any is dialled, and refuses the whole answer for one bad
address. `open_socket` judges again what is about to be dialled: a resolver is not asked about IP literals.
"""

import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal

from aiohttp import AddrInfoType, ClientRequest, ClientResponse
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.client_exceptions import ClientConnectionError
from aiohttp.connector import Connection
from typing_extensions import override

from registry.addresses import UNROUTABLE, classify, parse, readings

Phase = Literal["resolve", "connect", "tls", "send", "headers", "body"]

_MOST_ADDRESSES = 8
"""Of one answer; more would let a name's owner stretch an attempt or scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """Where connections may go. ``deny_networks`` wins over everything; ``allow_networks`` opens what is not public.

    ``ca_file`` is trusted in addition to the system's authorities. ``development`` opens loopback, and plain http
    to it.
    """

    allow_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    deny_networks: tuple[IPv4Network | IPv6Network, ...] = ()
    ca_file: str | None = None
    development: bool = False


def why_refused(address: str, policy: EgressPolicy, *, plain: bool = False) -> str | None:
    """Why ``address`` may not be dialled: a class of `registry.addresses`, ``denied`` or ``not_an_address``.

    None: it may. ``plain`` says that the connection is without TLS, which is for loopback alone.
    """
    try:
        reason = classify(address)
    except ValueError:
        return "not_an_address"
    kind = reason.removeprefix("embedded:")
    if any(reading in network for reading in readings(address) for network in policy.deny_networks):
        return "denied"
    if plain and (kind != "loopback" or not policy.development):
        return "not_loopback"
    if reason == "global" or (policy.development and parse(address).is_loopback):
        return None
    if kind not in UNROUTABLE and any(parse(address) in network for network in policy.allow_networks):
        return None
    return reason


class AddressRefused(OSError):  # noqa: N818 - a refusal; OSError so that aiohttp treats it as a failed dial
    """The policy keeps an address from being dialled."""


@dataclass(slots=True)
class Progress:
    """How far one exchange has come; the parts of aiohttp that run in its context report to it."""

    plain: bool
    on_sent: Callable[[], None] | None
    phase: Phase = "resolve"
    began_to_send: bool = False
    handed_over: bool = False
    refused: str | None = None
    """What address was refused, and why."""
    status: int | None = None

    def begin_to_send(self) -> None:
        self.began_to_send = True
        self.phase = "send"

    def hand_over(self) -> None:
        """The last byte of the request is with the transport."""
        if self.phase == "send":  # the peer may have answered before it had everything
            self.phase = "headers"
        if not self.handed_over and self.on_sent is not None:
            self.on_sent()
        self.handed_over = True

    def read_body(self, status: int) -> None:
        self.phase = "body"
        self.status = status


PROGRESS: ContextVar[Progress] = ContextVar("progress")


class CheckedNames(AbstractResolver):
    """The answers of another resolver, whole or not at all."""

    def __init__(self, resolver: AbstractResolver, policy: EgressPolicy) -> None:
        self._resolver = resolver
        self._policy = policy

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """One bad address among good ones refuses them all: it is how a name is rebound, or how a slip looks."""
        found = await self._resolver.resolve(host, port, family)
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "the name has no address")
        for row in found:
            _check(row["host"], self._policy)
        return found[:_MOST_ADDRESSES]

    @override
    async def close(self) -> None:
        await self._resolver.close()


def _check(address: str, policy: EgressPolicy) -> None:
    progress = PROGRESS.get()
    reason = why_refused(address, policy, plain=progress.plain)
    if reason is not None:
        progress.refused = f"{address} is {reason}" if reason != "not_an_address" else reason
        raise AddressRefused(progress.refused)


def socket_opener(policy: EgressPolicy) -> Callable[[AddrInfoType], socket.socket]:
    """A ``socket_factory`` that opens no socket for an address that the policy refuses."""

    def open_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = address
        _check(str(where[0]), policy)
        PROGRESS.get().phase = "connect"
        return socket.socket(family, kind, protocol)

    return open_socket


class TrustStore(ssl.SSLContext):
    """TLS 1.2 or newer towards servers that an authority of the system, or the policy's own, vouches for.

    Deriving from SSLContext shows when a handshake begins, which asyncio does not tell otherwise.
    """

    @classmethod
    def build(cls, ca_file: str | None) -> "TrustStore":
        """Raises OSError or ssl.SSLError when the file cannot be read or holds no certificate."""
        store = cls(ssl.PROTOCOL_TLS_CLIENT)
        store.minimum_version = ssl.TLSVersion.TLSv1_2
        store.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if ca_file:
            store.load_verify_locations(cafile=ca_file)
        store.set_alpn_protocols(["http/1.1"])
        return store

    @override
    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        progress = PROGRESS.get(None)
        if progress is not None:
            progress.phase = "tls"
        return super().wrap_bio(*arguments, **named)


class Request(ClientRequest):
    """A request that reports when its bytes begin to leave, and when all of them have."""

    @override
    async def send(self, conn: Connection) -> ClientResponse:
        protocol = conn.protocol
        if protocol is None or protocol.should_close:
            # A kept connection on which bytes arrived unasked: they would be read as the answer to this request.
            raise ClientConnectionError("the kept connection is not clean")
        progress = PROGRESS.get()
        progress.begin_to_send()
        response = await super().send(conn)
        if not self.body and not protocol.writing_paused:  # else `write_bytes` runs, in a task
            progress.hand_over()
        return response

    @override
    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        await super().write_bytes(writer, conn, content_length)
        if conn.protocol is not None and conn.protocol.exception() is None:
            PROGRESS.get().hand_over()
