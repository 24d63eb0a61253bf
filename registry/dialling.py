"""What happens between an approved origin and the first byte sent to it: every address is judged, three times.

`Names` judges every address of an answer before any is dialled, and refuses the whole answer for one bad address.
`socket_opener` judges again what is about to be dialled. `Request` compares the peer of the connection, which may be
a kept one, with the answer.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal

from aiohttp import AddrInfoType, ClientRequest, ClientResponse
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.client_exceptions import ClientConnectionError
from aiohttp.connector import Connection
from typing_extensions import override

from registry.addresses import UNROUTABLE, classify, covers, is_address, parse, readings

Phase = Literal["resolve", "connect", "tls", "send", "headers", "body"]

_ANY_FAMILY = socket.AF_UNSPEC
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
    if any(covers(network, reading) for reading in readings(address) for network in policy.deny_networks):
        return "denied"
    if plain and (kind != "loopback" or not policy.development):
        return "not_loopback"
    if reason == "global" or (policy.development and parse(address).is_loopback):
        return None
    if kind not in UNROUTABLE and any(covers(network, parse(address)) for network in policy.allow_networks):
        return None
    return reason


class AddressRefused(OSError):  # noqa: N818 - a refusal; OSError so that aiohttp treats it as a failed dial
    """The policy keeps an address from being dialled."""


class LookupFailed(OSError):  # noqa: N818 - reads as what it is
    """A name has no address now. The message is the resolver's."""


@dataclass(slots=True)
class Progress:
    """How far one exchange has come; the parts of aiohttp that run in its context report to it."""

    plain: bool
    on_sent: Callable[[], None] | None
    phase: Phase = "resolve"
    dialled: bool = False
    began_to_send: bool = False
    handed_over: bool = False
    refused: str | None = None
    """What address was refused, and why."""
    found: list[ResolveResult] = field(default_factory=list)
    status: int | None = None

    def dial(self) -> None:
        self.dialled = True
        self.phase = "connect"

    def begin_to_send(self) -> None:
        self.dialled = False  # aiohttp may take another connection for a request that may be repeated
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


class Names:
    """The answers of a resolver, whole or not at all."""

    def __init__(self, resolver: AbstractResolver, policy: EgressPolicy) -> None:
        self._resolver = resolver
        self._check = _checking(policy)

    async def find(self, host: str, port: int) -> None:
        """Note in the exchange's `Progress` the addresses that it may use.

        One bad address among good ones refuses them all: so looks a name that is being rebound, or a slip. Raises
        AddressRefused or LookupFailed.
        """
        found = [_literal(host, port)] if is_address(host) else await self._look_up(host, port)
        for row in found:
            self._check(row["host"])
        PROGRESS.get().found = found[:_MOST_ADDRESSES]

    async def _look_up(self, host: str, port: int) -> list[ResolveResult]:
        try:
            found = await self._resolver.resolve(host, port, _ANY_FAMILY)
        except OSError as error:
            raise LookupFailed(error.strerror or "the lookup failed") from None
        if not found:
            raise LookupFailed("the name has no address")
        return found

    async def close(self) -> None:
        await self._resolver.close()


def _literal(host: str, port: int) -> ResolveResult:
    return ResolveResult(hostname=host, host=host, port=port, family=_ANY_FAMILY, proto=0, flags=0)


class Found(AbstractResolver):
    """Gives aiohttp what `Names` has found for the exchange under way, and looks nothing up."""

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return PROGRESS.get().found

    @override
    async def close(self) -> None:
        """Nothing is held."""


def _checking(policy: EgressPolicy) -> Callable[[str], None]:
    """Raises AddressRefused, and says so to the exchange, for an address that the policy refuses."""
    # Judged for every exchange, and there are few: the judgement depends on nothing else.
    why = lru_cache(maxsize=1024)(partial(why_refused, policy=policy))

    def check(address: str) -> None:
        progress = PROGRESS.get()
        reason = why(address, plain=progress.plain)
        if reason is not None:
            progress.refused = f"{address} is {reason}" if reason != "not_an_address" else reason
            raise AddressRefused(progress.refused)

    return check


def socket_opener(policy: EgressPolicy) -> Callable[[AddrInfoType], socket.socket]:
    """A ``socket_factory`` that opens no socket for an address that the policy refuses."""
    check = _checking(policy)

    def open_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, where = address
        check(str(where[0]))
        PROGRESS.get().dial()
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

    def present(self, certificate_file: str, key_file: str) -> None:
        """Prove to servers who we are. Raises OSError or ssl.SSLError for files that are unusable, or of two pairs."""
        # Without a callback OpenSSL would ask for a passphrase on the terminal, and wait.
        self.load_cert_chain(certificate_file, key_file, password=lambda: "")

    @override
    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        progress = PROGRESS.get(None)
        if progress is not None:
            progress.phase = "tls"
        return super().wrap_bio(*arguments, **named)


@dataclass(frozen=True, slots=True, eq=False)
class ClientIdentity:
    """A client certificate for exchanges (RFC 8705). A connection that was opened with one carries no other's requests.

    `Egress.client_identity` makes them; the same object again may use a connection that is kept.
    """

    trust: TrustStore = field(repr=False)


class KeptConnectionUnfit(ClientConnectionError):  # noqa: N818 - not a failure: another connection will do
    """A kept connection must not carry this request. Nothing has been sent, and aiohttp has closed it."""


class Request(ClientRequest):
    """A request that looks at its connection first, and reports when its bytes begin to leave and when all have."""

    @override
    async def send(self, conn: Connection) -> ClientResponse:
        protocol = conn.protocol
        progress = PROGRESS.get()
        # Bytes that arrived unasked on a kept connection would be read as the answer to this request.
        if protocol is None or protocol.should_close or not _leads_to(protocol.transport, progress.found):
            raise ClientConnectionError if progress.dialled else KeptConnectionUnfit
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


def _leads_to(transport: asyncio.Transport | None, found: list[ResolveResult]) -> bool:
    peer = transport.get_extra_info("peername") if transport is not None else None
    return peer is not None and parse(peer[0]) in {parse(row["host"]) for row in found}
