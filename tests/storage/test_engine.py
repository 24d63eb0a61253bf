"""Connections: no update is lost, readers see what is committed, and no message tells a parameter."""

import asyncio
import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError

from relay.clock import SystemClock
from relay.storage.engine import Database
from tests.support.gateway import unguessable

COUNTER = "INSERT INTO rate_limits (bucket, \"window\", count) VALUES ('b', 1, 0)"
COUNT = "SELECT count FROM rate_limits WHERE bucket = 'b'"
RAISE = "UPDATE rate_limits SET count = :count WHERE bucket = 'b'"


async def run(db: Database, statement: str, **parameters: Any) -> None:
    async with db.write() as connection:
        await connection.execute(text(statement), parameters)


async def value(db: Database, statement: str = COUNT) -> Any:
    async with db.read() as connection:
        return (await connection.execute(text(statement))).scalar_one_or_none()


@pytest.fixture
async def counter(database: Database) -> Database:
    """A database with a row that counts from 0."""
    await run(database, COUNTER)
    return database


async def test_twenty_transactions_that_read_and_then_write_lose_nothing(sqlite_database_url: str):
    """SQLite's own transactions would all read the same number; here each waits for the one before, also elsewhere."""
    async with AsyncExitStack() as stack:
        databases = [Database.open(sqlite_database_url) for _ in range(2)]
        for db in databases:
            stack.push_async_callback(db.close)
        await run(databases[0], COUNTER)

        async def read_then_write(db: Database) -> None:
            async with db.write() as connection:
                count = (await connection.execute(text(COUNT))).scalar_one()
                await asyncio.sleep(0)
                await connection.execute(text(RAISE), {"count": count + 1})

        await asyncio.gather(*(read_then_write(databases[n % 2]) for n in range(20)))
        assert await value(databases[0]) == 20


async def test_a_reader_sees_what_is_committed_and_nothing_else(counter: Database):
    """While a transaction writes, and after it has failed, readers see the state before; after a commit the new one."""

    async def fail() -> None:
        async with counter.write() as connection:
            await connection.execute(text(RAISE), {"count": 1})
            assert await value(counter) == 0
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        await fail()
    assert await value(counter) == 0
    async with counter.write() as connection:
        await connection.execute(text(RAISE), {"count": 2})
        assert await value(counter) == 0
    assert await value(counter) == 2


async def test_a_reader_does_not_keep_writers_waiting(counter: Database):
    """A commit goes through between two reads: PostgreSQL shows it to the next statement, SQLite to the next reader."""
    async with counter.read() as connection:
        assert (await connection.execute(text(COUNT))).scalar_one() == 0
        await run(counter, RAISE, count=1)
        seen = (await connection.execute(text(COUNT))).scalar_one()
    assert seen == (1 if counter.dialect == "postgresql" else 0)
    assert await value(counter) == 1


async def test_a_single_statement_commits_by_itself(counter: Database):
    """After `statement` what it did is there for everybody."""
    async with counter.statement() as connection:
        await connection.execute(text(RAISE), {"count": 3})
    assert await value(counter) == 3


async def test_more_writers_than_connections_take_turns(counter: Database):
    """The pool is bounded: who comes late waits, and gets through."""
    await asyncio.gather(*(run(counter, "UPDATE rate_limits SET count = count + 1") for _ in range(40)))
    assert await value(counter) == 40


FAILING = {
    "sqlite": "SELECT missing_function(:value)",
    "postgresql": "SELECT missing_function(CAST(:value AS text))",
}


async def test_no_message_tells_a_parameter(database: Database):
    """What a statement was given stays out of its error, on every way in: comments and subjects are parameters."""
    secret = unguessable()
    for way_in in (database.read, database.write, database.statement):
        with pytest.raises(DBAPIError, match="missing_function") as raised:
            async with way_in() as connection:
                await connection.execute(text(FAILING[database.dialect]), {"value": secret})
        assert secret not in str(raised.value)
        assert secret not in repr(raised.value)
        assert "hide_parameters" in str(raised.value)


async def test_a_batch_of_parameters_is_hidden_as_well(counter: Database):
    """Many rows at once are no exception."""
    secret = unguessable()
    rows = [{"value": secret}, {"value": secret + "2"}]
    with pytest.raises(DBAPIError) as raised:
        async with counter.write() as connection:
            await connection.execute(text("INSERT INTO nowhere (a) VALUES (:value)"), rows)
    assert secret not in str(raised.value)


async def test_references_must_hold(database: Database):
    """A row cannot refer to what is not there; SQLite only checks when it is told to."""
    with pytest.raises(IntegrityError):
        await run(database, "INSERT INTO provenance_evidence (provenance, kind, id) VALUES (999, 'page', '1')")


async def test_sqlite_writes_through_to_the_disk(sqlite_database_url: str):
    """A commit is on the disk when it returns (synchronous = FULL, 2), and readers do not block it (WAL)."""
    db = Database.open(sqlite_database_url)
    for way_in in (db.read, db.write):
        async with way_in() as connection:
            found = [
                (await connection.execute(text(f"PRAGMA {p}"))).scalar_one() for p in ("journal_mode", "synchronous")
            ]
        assert found == ["wal", 2]
    await db.close()


async def test_the_clock_is_the_databases(database: Database):
    """Milliseconds since the epoch, as a value and inside a statement; a minute is left for two machines to differ."""
    async with database.read() as connection:
        at = await database.now_ms(connection)
        inside = (await connection.execute(database.sql("SELECT {now}"))).scalar_one()
    assert isinstance(at, int)
    assert at <= inside
    assert abs(at / 1000 - SystemClock().unix()) < 60


async def test_the_directory_of_a_sqlite_file_is_made(tmp_path: Path):
    """A first start needs no preparation."""
    path = tmp_path / "state" / "relay" / "relay.db"
    db = Database.open(f"sqlite:///{path}")
    assert await value(db, "SELECT 1") == 1
    assert path.exists()
    await db.close()


async def test_a_lock_is_passed_by_one_at_a_time(database: Database):
    """Among all processes: who comes second waits until the first has committed, and then sees what it did."""
    await run(database, COUNTER)

    async def read_then_write() -> None:
        async with database.write() as connection:
            await database.serialize(connection, 42)
            count = (await connection.execute(text(COUNT))).scalar_one()
            await asyncio.sleep(0)
            await connection.execute(text(RAISE), {"count": count + 1})

    await asyncio.gather(*(read_then_write() for _ in range(20)))
    assert await value(database) == 20


async def test_who_is_cancelled_while_writing_leaves_no_lock(sqlite_database_url: str):
    """A transaction that is cut off in a statement is over at once: another process may write, and so may this one."""
    db = Database.open(sqlite_database_url)
    writing, go_on = threading.Event(), threading.Event()

    def pause() -> int:
        writing.set()
        go_on.wait()
        return 1

    async def write_slowly() -> None:
        async with db.write() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert driver is not None
            await driver.create_function("pause", 0, pause)
            await connection.execute(text(COUNTER.replace("0)", "pause()) RETURNING count")))

    async with asyncio.TaskGroup() as group:
        cut_off = group.create_task(write_slowly())
        await asyncio.to_thread(writing.wait)
        cut_off.cancel()
        go_on.set()
    with closing(sqlite3.connect(db.url.database or "", timeout=0, isolation_level=None)) as elsewhere:
        elsewhere.execute("BEGIN IMMEDIATE")
        elsewhere.execute("ROLLBACK")
    await run(db, COUNTER)
    assert await value(db) == 0
    await db.close()
