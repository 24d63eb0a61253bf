"""What the host's hooks may do."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from relay.errors import Refusal
from relay.http.bodies import read_bytes
from relay.receiver import PREFIX, Caller, Hooks, Ratings, TaskStatus, receiver_app
from relay.receiver.routes import MAX_BODY_BYTES
from relay.storage.engine import Database

RATING = {"id": "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a001", "taskId": "run-1", "rating": "up"}


async def anybody(_: web.Request) -> Caller:
    return Caller("ok_alice")


async def careful(request: web.Request) -> Caller | None:
    """A caller whose credentials name the body, as authorization details do."""
    body = await read_bytes(request, max_bytes=MAX_BODY_BYTES)
    return Caller("ok_alice") if b"run-1" in body else None


async def finished(_owner: str, _task: str) -> TaskStatus:
    return "finished"


async def out_of_order(*_: object) -> None:
    raise Refusal("keys_unavailable", "Try again soon.", headers={"Retry-After": "5"})


@pytest.mark.parametrize(
    ("hooks", "status"),
    [
        (Hooks(identify=anybody, task=finished), 201),
        (Hooks(identify=careful, task=finished), 201),
        (Hooks(identify=out_of_order, task=finished), 503),
        (Hooks(identify=anybody, task=out_of_order), 503),
    ],
)
async def test_hooks(sqlite_database_url: str, hooks: Hooks, status: int):
    """A hook may read the body before the receiver does, and may refuse in its own words."""
    database = Database.open(sqlite_database_url)
    app = web.Application()
    app.add_subapp(PREFIX, receiver_app(Ratings(database), hooks))
    async with TestClient(TestServer(app)) as client:
        response = await client.post("/api/feedback", json=RATING)
        assert (response.status, response.headers.get("Retry-After")) == (status, "5" if status == 503 else None)
        rows = [row for row in await Ratings(database).newest("ok_alice") if row.rated.task == "run-1"]
        assert len(rows) == (status == 201)
    await database.close()
