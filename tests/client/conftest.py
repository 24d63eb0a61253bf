"""A relay with its specialists, a client of it, and something unreliable that may stand between the two."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from relay.client import GetToken, RelayClient
from tests.support.gateway import Gateway, small_world
from tests.support.peers import Line, Peer, Received, Script, serve
from tests.support.specialist import Specialist

World = tuple[Gateway, dict[str, Specialist]]


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    async with small_world(tmp_path, database_url) as running:
        yield running


@pytest.fixture
def relay(world: World) -> Gateway:
    return world[0]


@pytest.fixture
def literature(world: World) -> Specialist:
    return world[1]["literature"]


class Tickets:
    """Gives out these tokens one after the other, the last for ever, and counts."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)
        self.given = 0

    async def __call__(self) -> str:
        self.given += 1
        return self._tokens[min(self.given, len(self._tokens)) - 1]


def client_of(port: int, token: str | GetToken, *, seconds: float = 20.0) -> RelayClient:
    get_token = Tickets(token) if isinstance(token, str) else token
    return RelayClient(f"http://127.0.0.1:{port}", get_token, deadline_seconds=seconds)


@pytest.fixture
async def alice(relay: Gateway) -> AsyncIterator[RelayClient]:
    async with client_of(relay.port, relay.token()) as client:
        yield client


@pytest.fixture
async def workbench(relay: Gateway) -> AsyncIterator[RelayClient]:
    async with client_of(relay.port, relay.machine) as client:
        yield client


async def forward(port: int, received: Received, take: Callable[[bytes], bool]) -> None:
    """Send a request on to the relay on a connection of its own, and hand over what comes until ``take`` has enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = received.head.removesuffix(b"\r\n\r\n") + b"\r\nConnection: close\r\n\r\n"
        writer.write(head + received.body)
        await writer.drain()
        while (data := await reader.read(65_536)) and not take(data):
            pass
    finally:
        writer.close()
        await writer.wait_closed()


async def whole_answer(port: int, received: Received) -> bytes:
    parts: list[bytes] = []

    def take(data: bytes) -> bool:
        parts.append(data)
        return False

    await forward(port, received, take)
    return b"".join(parts)


def between(port: int, *first: Script) -> AbstractAsyncContextManager[Peer]:
    """Something before the relay: each of its first connections has a script of its own, the rest reach the relay."""
    scripts = iter(first)

    async def script(line: Line) -> None:
        its_own = next(scripts, None)
        if its_own is not None:
            await its_own(line)
            return
        await line.send(await whole_answer(port, await line.receive()))

    return serve(script, None)


def answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body
