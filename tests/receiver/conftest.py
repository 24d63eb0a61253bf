"""A specialist with three callers and a handful of tasks, that mounts the receiver."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from relay.receiver import PREFIX, Caller, Hooks, Ratings, TaskStatus, receiver_app
from relay.storage.engine import Database

CALLERS = {
    "alices-token": Caller("ok_alice"),
    "bobs-token": Caller("ok_bob"),
    "operators-token": Caller("ok_operator", operator=True),
}


@dataclass
class Specialist:
    """The host application: who its callers are, which tasks they have, and the receiver that it mounts."""

    tasks: dict[tuple[str, str], TaskStatus] = field(
        default_factory=lambda: {
            ("ok_alice", "run-1"): "finished",
            ("ok_alice", "run-2"): "finished",
            ("ok_alice", "run-3"): "running",
            ("ok_bob", "run-9"): "finished",
        }
    )
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def identify(self, request: web.Request) -> Caller | None:
        return CALLERS.get(request.headers.get("Authorization", "").removeprefix("Bearer "))

    async def task(self, owner_key: str, task_id: str) -> TaskStatus | None:
        self.asked.append((owner_key, task_id))
        return self.tasks.get((owner_key, task_id))

    def app(self, database: Database) -> web.Application:
        app = web.Application()
        hooks = Hooks(identify=self.identify, task=self.task, challenge='Bearer realm="specialist"')
        app.add_subapp(PREFIX, receiver_app(Ratings(database), hooks))
        return app


@pytest.fixture
def specialist() -> Specialist:
    return Specialist()


@pytest.fixture
async def client(specialist: Specialist, database: Database) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A client of the specialist; once on each engine."""
    async with TestClient(TestServer(specialist.app(database))) as client:
        yield client


@pytest.fixture
async def sqlite_client(
    specialist: Specialist, sqlite_database_url: str
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A client of the specialist on SQLite alone, for what is decided before a database is asked."""
    database = Database.open(sqlite_database_url)
    async with TestClient(TestServer(specialist.app(database))) as client:
        yield client
    await database.close()
