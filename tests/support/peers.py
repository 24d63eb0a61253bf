"""Servers on loopback that behave as a test tells them, byte for byte."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import trustme
from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

OK = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    head: bytes
    body: bytes
    client: str | None = None
    """The name in the certificate that the connection presented."""

    @property
    def lines(self) -> list[bytes]:
        return self.head.removesuffix(b"\r\n\r\n").split(b"\r\n")


class Line:
    """One connection, seen from the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: "Peer") -> None:
        self._reader = reader
        self._writer = writer
        self._peer = peer

    async def receive(self) -> Received:
        """The next request, which is counted once its body is complete. EOFError when there is none."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        length = int(lengths[0].partition(b":")[2]) if lengths else 0
        received = Received(head, await self._reader.readexactly(length), self._client())
        self._peer.received.append(received)
        self._peer.arrived.release()
        return received

    def _client(self) -> str | None:
        certificate = self._writer.get_extra_info("peercert") or {}
        return next((str(name) for _, name in certificate.get("subjectAltName", ())), None)

    @property
    def gone(self) -> bool:
        """Whether the other side has closed the connection, as far as is known here."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def hold(self) -> None:
        """Do nothing until the other side has gone."""
        self._peer.held.set()
        while await self._reader.read(65_536):
            pass

    async def stall(self) -> None:
        """Read nothing more, and keep the connection until the test ends."""
        await asyncio.Event().wait()

    def reset(self) -> None:
        self._writer.transport.abort()


Script: TypeAlias = Callable[[Line], Awaitable[None]]


@dataclass(slots=True)
class Peer:
    """What a server has seen.

    ``arrived`` is released once per request, ``held`` is set when a script starts to hold a connection.
    """

    port: int = 0
    connections: int = 0
    received: list[Received] = field(default_factory=list)
    arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    held: asyncio.Event = field(default_factory=asyncio.Event)

    def url(self, name: str = "localhost", path: str = "/api/feedback", scheme: str = "https") -> str:
        return f"{scheme}://{name}:{self.port}{path}"


async def answer_all(line: Line) -> None:
    """A script: every request gets `OK`."""
    while True:
        await line.receive()
        await line.send(OK)


def answers(*parts: bytes) -> Script:
    """A script: one request gets these bytes, then the connection ends."""

    async def script(line: Line) -> None:
        await line.receive()
        for part in parts:
            await line.send(part)

    return script


@asynccontextmanager
async def serve(
    script: Script, tls: ssl.SSLContext | None, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Peer]:
    """Run ``script`` for every connection; without ``tls`` the server speaks in the clear."""
    peer = Peer()
    running: set[asyncio.Task[None]] = set()

    async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        peer.connections += 1
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):  # the other side has gone, or the test has
                await script(Line(reader, writer, peer))
        finally:
            running.discard(task)
            writer.close()

    server = await asyncio.start_server(attend, host, port, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class Authority:
    """A private certificate authority, and servers that it vouches for."""

    def __init__(self, directory: Path) -> None:
        self._ca = trustme.CA()
        self.file = str(directory / "ca.pem")
        self._ca.cert_pem.write_to_path(self.file)

    def server(self, *names: str, not_after: datetime | None = None) -> ssl.SSLContext:
        """The TLS side of a server with these names (localhost and the loopback addresses when none are given)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        not_before = not_after - timedelta(days=30) if not_after else None
        issued = self._ca.issue_cert(
            *(names or ("localhost", "127.0.0.1", "::1")), not_before=not_before, not_after=not_after
        )
        issued.configure_cert(context)
        return context

    def server_for_clients(self, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        """A server that speaks only to clients that this authority vouches for."""
        context = self.server()
        context.minimum_version = context.maximum_version = version
        context.verify_mode = ssl.CERT_REQUIRED
        self._ca.configure_trust(context)
        return context

    def client(self, name: str, directory: Path) -> tuple[str, str]:
        """The files of a client's certificate and of its key."""
        issued = self._ca.issue_cert(name)
        certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        key.touch(mode=0o600)
        key.write_bytes(issued.private_key_pem.bytes())
        return str(certificate), str(key)

    def old_server(self) -> ssl.SSLContext:
        """A server that knows nothing newer than TLS 1.1."""
        context = self.server()
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        return context


class Book(AbstractResolver):
    """A resolver that reads its answers from a book: one page a lookup, the last page for ever.

    A page that is an exception is raised.
    """

    def __init__(self, names: Mapping[str, list[list[str] | OSError]]) -> None:
        self._names = {name: list(pages) for name, pages in names.items()}
        self.asked: list[str] = []

    @override
    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        self.asked.append(host)
        pages = self._names[host]
        page = pages.pop(0) if len(pages) > 1 else pages[0]
        if isinstance(page, OSError):
            raise page
        return [ResolveResult(hostname=host, host=address, port=port, family=0, proto=0, flags=0) for address in page]

    @override
    async def close(self) -> None:
        """Nothing is held."""
