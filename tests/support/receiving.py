"""A specialist that mounts the receiver, as a real one would, and can keep its answers to itself."""

import asyncio
from types import TracebackType
from typing import Self

from aiohttp import web
from aiohttp.typedefs import Handler
from opentelemetry.trace import Tracer

from relay.http.bodies import read_bytes
from relay.receiver import PREFIX, Caller, Hooks, Ratings, TaskStatus, receiver_app
from relay.receiver.routes import MAX_BODY_BYTES
from relay.receiver.store import Row
from relay.storage.engine import Database
from tests.support.gateway import SECRET

OWNER = "ok_workbench"


class ReceivingSpecialist:
    """Stores what it is sent. ``bodies`` is what came in, in order."""

    def __init__(self, database_url: str, tracer: Tracer | None = None) -> None:
        self.bodies: list[bytes] = []
        self.holding = asyncio.Event()
        """Set when a rating has been stored and its answer is held."""
        self._open = asyncio.Event()
        self._open.set()
        self._db = Database.open(database_url)
        self._ratings = Ratings(self._db)
        app = web.Application(middlewares=[self._middleware])
        app.add_subapp(PREFIX, receiver_app(self._ratings, Hooks(identify=_identify, task=_task), tracer=tracer))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)

    @property
    def origin(self) -> str:
        return f"http://localhost:{self._runner.addresses[0][1]}"

    def hold(self) -> None:
        """Store, and do not answer until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def rows(self) -> list[Row]:
        return await self._ratings.newest(OWNER)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        await self._runner.cleanup()
        await self._db.close()

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.bodies.append(await read_bytes(request, max_bytes=MAX_BODY_BYTES))
        answer = await handler(request)
        if not self._open.is_set():
            self.holding.set()
            await self._open.wait()
        return answer


async def _identify(request: web.Request) -> Caller | None:
    return Caller(OWNER) if request.headers.get("Authorization") == f"Bearer {SECRET}" else None


async def _task(_owner: str, _task_id: str) -> TaskStatus | None:
    return "finished"
