"""The fast ways to the database: a line of its own to PostgreSQL, a writing thread on SQLite."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from relay.storage.absence import is_away
from relay.storage.engine import Database
from relay.storage.express import Line, WritingThread, for_psycopg

NEW_AGENT = "INSERT INTO agents (id, name, revision, updated_at) VALUES (:id, 'x', 1, 1)"


@pytest.fixture
async def postgres(postgres_database_url: str) -> AsyncIterator[Database]:
    db = Database.open(postgres_database_url)
    yield db
    await db.close()


@pytest.fixture
async def sqlite(sqlite_database_url: str) -> AsyncIterator[Database]:
    db = Database.open(sqlite_database_url)
    yield db
    await db.close()


async def agents(db: Database) -> list[str]:
    async with db.read() as connection:
        return list((await connection.execute(text("SELECT id FROM agents ORDER BY id"))).scalars())


async def backend(line: Line) -> int:
    return int((await line.rows("SELECT pg_backend_pid() AS pid", {}))[0]["pid"])


def test_parameters_are_translated():
    """``:name`` becomes psycopg's, a percent sign is doubled, a cast and a time stay as they are."""
    assert for_psycopg("SELECT :a_b, x::int, '%' WHERE t = '10:30'") == "SELECT %(a_b)s, x::int, '%%' WHERE t = '10:30'"


async def test_a_line_commits_and_returns_rows(postgres: Database):
    """A statement is committed when its rows are there: another connection sees what it wrote."""
    rows = await postgres.line().rows(for_psycopg(NEW_AGENT + " RETURNING id, revision"), {"id": "a"})
    assert rows == [{"id": "a", "revision": 1}]
    assert await agents(postgres) == ["a"]


async def test_a_line_that_has_broken_is_opened_again(postgres: Database, postgres_database_url: str):
    """The server closes an idle connection; the next statement is carried out, on a new one."""
    line = postgres.line()
    before = await backend(line)
    with psycopg.connect(postgres_database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (before,))
    assert await backend(line) != before


async def test_an_error_is_told_in_one_kind_and_the_line_goes_on(postgres: Database):
    """What the database refuses is a `DBAPIError` without the parameters, and is not made a second time."""
    line = postgres.line()
    statement = for_psycopg(NEW_AGENT + " RETURNING id")
    await line.rows(statement, {"id": "told-once"})
    same = await backend(line)
    with pytest.raises(DBAPIError) as refused:
        await line.rows(statement, {"id": "told-once"})
    assert "told-once" not in str(refused.value.params)
    assert await backend(line) == same


async def test_a_statement_that_is_cut_off_leaves_no_answer_behind(postgres: Database):
    """Cancelled in the middle, the line gives the next caller their own rows."""
    line = postgres.line()
    await backend(line)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await line.rows("SELECT pg_sleep(30), 1 AS stale", {})
    assert await line.rows("SELECT 2 AS fresh", {}) == [{"fresh": 2}]


async def test_callers_take_turns(postgres: Database):
    """One statement at a time: each gets its own rows."""
    line = postgres.line()
    found = await asyncio.gather(*(line.rows(for_psycopg("SELECT :n AS n"), {"n": str(n)}) for n in range(20)))
    assert [rows[0]["n"] for rows in found] == [str(n) for n in range(20)]


async def test_who_waits_behind_a_silent_server_is_told_in_time(postgres: Database, monkeypatch: pytest.MonkeyPatch):
    """A statement that gets no answer holds up those behind it for a while, not for ever: they are told that the
    database is away, and the line goes on once it is free."""  # noqa: D209
    monkeypatch.setattr("relay.storage.express.LINE_SECONDS", 0.02)
    line = postgres.line()
    await backend(line)
    silent = asyncio.get_running_loop().create_task(line.rows("SELECT pg_sleep(600)", {}))
    await asyncio.sleep(0)
    with pytest.raises(PoolTimeoutError) as behind:
        await line.rows("SELECT 1 AS one", {})
    assert is_away(behind.value)
    silent.cancel()
    await asyncio.gather(silent, return_exceptions=True)
    assert await line.rows("SELECT 2 AS fresh", {}) == [{"fresh": 2}]


async def test_a_transaction_of_the_thread_is_whole(sqlite: Database):
    """What fails leaves nothing behind, and is told in one kind; what follows is carried out."""

    def twice(connection: sqlite3.Connection) -> None:
        connection.execute(NEW_AGENT, {"id": "a"})
        connection.execute(NEW_AGENT, {"id": "a"})

    with pytest.raises(DBAPIError):
        await sqlite.transact(twice)
    assert await agents(sqlite) == []
    await sqlite.transact(lambda connection: connection.execute(NEW_AGENT, {"id": "b"}))
    assert await agents(sqlite) == ["b"]


async def test_writers_of_one_process_take_turns(sqlite: Database):
    """The thread and a transaction of the other kind never meet at the file's lock."""

    async def other(n: int) -> None:
        async with sqlite.write() as connection:
            await connection.execute(text(NEW_AGENT), {"id": f"other-{n}"})

    await asyncio.gather(
        *(sqlite.transact(lambda c, n=n: c.execute(NEW_AGENT, {"id": f"thread-{n}"})) for n in range(10)),
        *(other(n) for n in range(10)),
    )
    assert len(await agents(sqlite)) == 20


async def test_who_stands_behind_others_is_told_in_time(sqlite: Database, monkeypatch: pytest.MonkeyPatch):
    """The wait for one's turn counts: it ends with an error that says the database is away, whichever way one writes,
    and the turn goes to whoever comes next."""  # noqa: D209
    monkeypatch.setattr("relay.storage.engine.SQLITE_BUSY_SECONDS", 0.02)
    async with sqlite.write():
        with pytest.raises(PoolTimeoutError) as behind:
            await sqlite.transact(lambda _: None)
        assert is_away(behind.value)
        with pytest.raises(PoolTimeoutError):
            async with sqlite.write():
                raise AssertionError("two writers at once")
    assert await sqlite.transact(lambda _: "its turn") == "its turn"


async def test_what_is_left_of_the_patience_is_for_other_processes(sqlite: Database):
    """With another process at the lock, a transaction that has waited for its turn fails sooner, and is told that the
    database is away; the next one has the whole patience again."""  # noqa: D209
    asked: list[int] = []

    def asking(connection: sqlite3.Connection) -> None:
        asked.append(connection.execute("PRAGMA busy_timeout").fetchone()[0])

    thread = WritingThread(sqlite.url.database or "")
    await thread.run(asking)
    other = sqlite3.connect(sqlite.url.database or "")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DBAPIError) as locked:
        await thread.run(asking, 0.01)
    assert is_away(locked.value)
    other.close()
    await thread.run(asking, 0.01)
    await thread.run(asking)
    await thread.close()
    assert asked == [30_000, 10, 30_000]


async def test_a_caller_who_leaves_does_not_cut_the_transaction(sqlite: Database):
    """Cancelled while the thread works, the transaction comes to its end, and the next one is not in its way."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        begun.set()
        go_on.wait(10)
        connection.execute(NEW_AGENT, {"id": "slow"})

    task = asyncio.ensure_future(sqlite.transact(slow))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await sqlite.transact(lambda connection: connection.execute(NEW_AGENT, {"id": "next"}))
    assert await agents(sqlite) == ["next", "slow"]


async def test_only_sqlite_has_a_thread(postgres: Database):
    """A transaction of the thread is refused on PostgreSQL."""
    with pytest.raises(TypeError, match="only SQLite"):
        await postgres.transact(lambda _: None)
