"""What the relay is compared with: aiohttp handlers that do one thing, each as a process of its own.

    python -m bench.servers nothing|postgresql|sqlite|sink|silent|specialist [--database URL] [--certificate FILE]

``nothing`` parses the body and answers; ``postgresql`` and ``sqlite`` also store it with one committed INSERT and no
authentication; ``sink`` acknowledges everything and keeps nothing, ``silent`` never answers; ``specialist`` keeps what
it acknowledges, with the receiver that specialists mount. They run on uvloop and write no access log, like the relay.
The first line they print is their port.
"""

import argparse
import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import aiosqlite
import psycopg_pool
import uvloop
from aiohttp import web

from relay.receiver import PREFIX, Caller, Hooks, Ratings, TaskStatus, receiver_app
from relay.storage.engine import Database

TABLE = """CREATE TABLE IF NOT EXISTS bare (
    seq {serial}, owner BIGINT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL, rating TEXT NOT NULL, comment TEXT,
    UNIQUE (owner, id))"""
INSERT = "INSERT INTO bare (owner, id, task, rating, comment) VALUES ({marks}) RETURNING seq"

Store = Callable[[dict[str, object]], "asyncio.Future[object]"]


def answer(body: dict[str, object]) -> web.Response:
    return web.json_response({"id": body["id"], "saved": False, "state": "pending"}, status=202)


async def nothing(request: web.Request) -> web.Response:
    return answer(await request.json())


@asynccontextmanager
async def postgresql(app: web.Application, url: str) -> AsyncIterator[None]:
    """Psycopg's own pool in autocommit: the fastest plain way to commit one row."""
    async with psycopg_pool.AsyncConnectionPool(
        url, min_size=10, max_size=10, kwargs={"autocommit": True}, open=False
    ) as pool:
        async with pool.connection() as connection:
            await connection.execute(TABLE.format(serial="bigserial PRIMARY KEY"))
        insert = INSERT.format(marks="%s, %s, %s, %s, %s")

        async def store(request: web.Request) -> web.Response:
            body = await request.json()
            async with pool.connection() as connection:
                cursor = await connection.execute(insert, _values(body))
                await cursor.fetchone()
            return answer(body)

        app.router.add_post("/api/feedback", store)
        yield


@asynccontextmanager
async def sqlite(app: web.Application, url: str) -> AsyncIterator[None]:
    """One connection that commits each row to the disk."""
    async with aiosqlite.connect(url.removeprefix("sqlite:///"), isolation_level=None) as connection:
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            await connection.execute(f"PRAGMA {pragma}")
        await connection.execute(TABLE.format(serial="INTEGER PRIMARY KEY"))
        insert = INSERT.format(marks="?, ?, ?, ?, ?")

        async def store(request: web.Request) -> web.Response:
            body = await request.json()
            await connection.execute_fetchall(insert, _values(body))
            return answer(body)

        app.router.add_post("/api/feedback", store)
        yield


def _values(body: dict[str, object]) -> tuple[object, ...]:
    return (1, body["id"], body["taskId"], body["rating"], body.get("comment"))


async def acknowledge(request: web.Request) -> web.Response:
    """Every rating is saved, and forgotten."""
    identifier = json.loads(await request.read())["id"]
    return web.Response(
        status=201, body=b'{"id":"%b","saved":true}' % identifier.encode(), content_type="application/json"
    )


async def never(request: web.Request) -> web.Response:
    """Take the rating and say nothing."""
    await request.read()
    await asyncio.get_running_loop().create_future()
    raise AssertionError("unreachable")


@asynccontextmanager
async def specialist(app: web.Application, url: str) -> AsyncIterator[None]:
    """Everybody may rate every task, so that nothing but receiving is measured."""
    db = Database.open(url)

    async def identify(_: web.Request) -> Caller:
        return Caller("ok_everybody")

    async def finished(_owner: str, _task: str) -> TaskStatus:
        return "finished"

    app.add_subapp(PREFIX, receiver_app(Ratings(db), Hooks(identify=identify, task=finished)))
    yield
    await db.close()


async def run(arguments: argparse.Namespace) -> None:
    app = web.Application()
    async with AsyncExitStack() as stack:
        match arguments.kind:
            case "nothing":
                app.router.add_post("/api/feedback", nothing)
            case "sink":
                app.router.add_post("/api/feedback", acknowledge)
            case "silent":
                app.router.add_post("/api/feedback", never)
            case "specialist":
                await stack.enter_async_context(specialist(app, arguments.database))
            case "postgresql":
                await stack.enter_async_context(postgresql(app, arguments.database))
            case "sqlite":
                await stack.enter_async_context(sqlite(app, arguments.database))
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        tls = None
        if arguments.certificate:
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(arguments.certificate)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().create_future()


def main() -> None:
    parser = argparse.ArgumentParser(description="What the relay is compared with.")
    parser.add_argument("kind", choices=["nothing", "postgresql", "sqlite", "sink", "silent", "specialist"])
    parser.add_argument("--database", default="")
    parser.add_argument("--certificate", help="PEM with chain and key: serve https")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
