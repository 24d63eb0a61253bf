"""A specialist's server on a loopback port that does as a test tells it, and remembers what reached it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


Behaviour = Callable[[Received], Awaitable[web.StreamResponse]]


async def acknowledge(received: Received) -> web.StreamResponse:
    """The answer that saves."""
    return web.json_response({"id": received.json["id"], "saved": True}, status=201)


def answering(status: int, body: object = None, *, headers: dict[str, str] | None = None) -> Behaviour:
    """Always this answer; ``body`` bytes go out as they are, anything else as JSON."""

    async def behave(_received: Received) -> web.StreamResponse:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return web.Response(status=status, body=raw, headers={"Content-Type": "application/json", **(headers or {})})

    return behave


class Held:
    """A behaviour: take the request, and acknowledge it only when let go."""

    def __init__(self) -> None:
        self._free = asyncio.Event()

    def let_go(self) -> None:
        self._free.set()

    async def __call__(self, received: Received) -> web.StreamResponse:
        await self._free.wait()
        return await acknowledge(received)


def first(once: Behaviour, then: Behaviour) -> Behaviour:
    """One behaviour for the first post, another from the second on."""
    behaviours = iter([once])

    async def behave(received: Received) -> web.StreamResponse:
        return await next(behaviours, then)(received)

    return behave


@dataclass
class Specialist:
    """``behave`` answers posts, ``listing`` is what a GET shows, or else what ``lists`` answers.

    ``received`` holds what came in, in order.
    """

    behave: Behaviour = acknowledge
    raw: Callable[[Received, web.Request], Awaitable[web.StreamResponse]] | None = None
    """Answers posts instead of ``behave``, with the request at hand: for streams."""
    listing: object = field(default_factory=list)
    lists: Behaviour | None = None
    received: list[Received] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self._arrived = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    @property
    def origin(self) -> str:
        return f"http://localhost:{self.port}"

    @property
    def posts(self) -> list[Received]:
        return [r for r in self.received if r.method == "POST"]

    @property
    def gets(self) -> list[Received]:
        return [r for r in self.received if r.method == "GET"]

    async def start(self) -> None:
        """Listen; on the same port as before if there was one."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def wait_for_posts(self, count: int) -> None:
        """Return once so many posts have arrived."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.posts) >= count)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        received = Received(request.method, request.path, dict(request.headers), await request.read())
        async with self._arrived:
            self.received.append(received)
            self._arrived.notify_all()
        if request.method == "GET":
            return await self.lists(received) if self.lists else web.json_response(self.listing)
        if self.raw is not None:
            return await self.raw(received, request)
        return await self.behave(received)
