"""A served application with the whole edge around its routes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator

import pytest
from aiohttp import web

from relay.clock import SystemClock
from relay.http import guard, problems
from relay.http.cors import SharedOrigins
from relay.http.events import end_streams_with
from relay.http.observation import Observation
from relay.http.server import Runner
from relay.telemetry.metrics import Metrics
from tests.support.logs import Log, logging_to_memory
from tests.support.wire import Answered, send

Serve = Callable[..., Awaitable["Edge"]]


class Edge:
    """A server on a loopback port, what it counts and what it logs."""

    def __init__(self, port: int, metrics: Metrics, runner: Runner, log: Log) -> None:
        self.port = port
        self.metrics = metrics
        self.runner = runner
        self.log = log

    async def send(self, *parts: bytes) -> Answered:
        return await send(self.port, *parts)

    @property
    def counted(self) -> str:
        return self.metrics.render()[0].decode()


@pytest.fixture
def log() -> Iterator[Log]:
    with logging_to_memory() as log:
        yield log


@pytest.fixture
async def serve(log: Log) -> AsyncIterator[Serve]:
    """Serve routes with every middleware in its place, and the log in memory."""
    runners: list[Runner] = []

    async def start(*routes: web.RouteDef, origins: Collection[str] = ()) -> Edge:
        metrics = Metrics()
        observation = Observation(metrics, SystemClock())
        shared = SharedOrigins(origins)
        app = web.Application(
            middlewares=[observation.middleware, shared.middleware, problems.middleware, guard.middleware]
        )
        app.on_response_prepare.append(shared.mark)
        app.add_routes(routes)
        end_streams_with(app)
        runner = Runner(app, unrouted=observation.unrouted, shutdown_timeout=10)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return Edge(runner.addresses[0][1], metrics, runner, log)

    yield start
    async with asyncio.timeout(30):
        for runner in runners:
            await runner.cleanup()
