"""Connections. SQLite and PostgreSQL behind one small interface; for what everything waits for, see `express`.

On SQLite one connection writes, every transaction with BEGIN IMMEDIATE: its default transactions lose updates
silently when two of them read and then write.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import URL, QueuePool, TextClause, event, make_url, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from relay.storage.express import (
    SQLITE_BUSY_SECONDS,
    SQLITE_LEAST_BUSY_SECONDS,
    SQLITE_PRAGMAS,
    Line,
    WritingThread,
)

T = TypeVar("T")

Dialect = Literal["sqlite", "postgresql"]

NOW_MS: dict[Dialect, str] = {
    "sqlite": "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    # As a sub-select it is asked once a statement: PostgreSQL compares no index with a function that changes each time.
    "postgresql": "(SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint))",
}
"""The database's clock as SQL: milliseconds since the epoch, whatever the session's time zone."""


class Database:
    """One database, two ways in: `read` for looking, `write` for a transaction."""

    def __init__(self, dialect: Dialect, reader: AsyncEngine, writer: AsyncEngine, autocommit: AsyncEngine) -> None:
        self.dialect: Dialect = dialect
        self.now = NOW_MS[dialect]
        self._reader = reader
        self._writer = writer
        self._autocommit = autocommit
        self._lines: list[Line] = []
        # On SQLite writers of one process take turns here, rather than wait for the file's lock, which is not fair.
        self._turn = asyncio.Lock()
        self._thread = WritingThread(writer.url.database or "") if dialect == "sqlite" else None

    @classmethod
    def open(cls, url: str | URL, *, pool_size: int = 10) -> "Database":
        """Prepare engines for ``sqlite:///file`` or ``postgresql://…``; nothing is connected yet."""
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            return cls._open_sqlite(parsed, pool_size)
        return cls._open_postgresql(parsed, pool_size)

    @classmethod
    def _open_sqlite(cls, url: URL, pool_size: int) -> "Database":
        url = url.set(drivername="sqlite+aiosqlite")
        if url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        connect_args = {"isolation_level": None, "timeout": SQLITE_BUSY_SECONDS}
        options: dict[str, Any] = {"hide_parameters": True, "connect_args": connect_args}
        writer = create_async_engine(url, pool_size=1, max_overflow=0, **options)
        reader = create_async_engine(url, pool_size=min(pool_size, 4), max_overflow=0, **options)
        for engine, begin in ((writer, "BEGIN IMMEDIATE"), (reader, "BEGIN")):
            _configure_sqlite(engine, begin)
        return cls("sqlite", reader, writer, writer)

    @classmethod
    def _open_postgresql(cls, url: URL, pool_size: int) -> "Database":
        engine = create_async_engine(
            url.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            pool_size=pool_size,
            max_overflow=0,
            pool_pre_ping=True,
            pool_use_lifo=True,  # what was used last has its statements prepared
        )
        return cls("postgresql", engine, engine, engine.execution_options(isolation_level="AUTOCOMMIT"))

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for statements that only look. On PostgreSQL each sees what is committed when it starts."""
        engine = self._reader if self.dialect == "sqlite" else self._autocommit
        async with engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """One transaction, committed on leaving, rolled back by an exception."""
        if self._thread is None:
            async with self._writer.begin() as connection:
                yield connection
        else:
            async with self._taking_turns(), self._writer.begin() as connection:
                yield connection

    @asynccontextmanager
    async def _taking_turns(self) -> AsyncIterator[float]:
        """SQLite: nobody else of this process writes meanwhile. Gives the seconds to wait for other processes.

        Both waits together are bounded, so that whoever stands behind others is told in time that the file is locked.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + SQLITE_BUSY_SECONDS
        try:
            async with asyncio.timeout_at(until):
                await self._turn.acquire()
        except TimeoutError:
            raise PoolTimeoutError("other writers of this process wait for the file as well") from None
        try:
            yield max(until - loop.time(), SQLITE_LEAST_BUSY_SECONDS)
        finally:
            self._turn.release()

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[AsyncConnection]:
        """For a single writing statement: committed with it on PostgreSQL (one round trip), a transaction on SQLite."""
        if self.dialect == "sqlite":
            async with self.write() as connection:
                yield connection
        else:
            async with self._autocommit.connect() as connection:
                yield connection

    def line(self) -> Line:
        """PostgreSQL: a connection of its own, for a statement that is made over and over."""
        line = Line(self.url)
        self._lines.append(line)
        return line

    async def transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """SQLite: one transaction, carried out in the thread that writes."""
        if self._thread is None:
            raise TypeError("only SQLite has a thread that writes")
        async with self._taking_turns() as seconds:
            return await self._thread.run(work, seconds)

    @asynccontextmanager
    async def connect_for_migration(self) -> AsyncIterator[AsyncConnection]:
        """The writing connection with no transaction begun: each migration brings its own."""
        async with self._writer.connect() as connection:
            yield connection

    async def now_ms(self, connection: AsyncConnection) -> int:
        """The database's clock: milliseconds since the epoch."""
        return int((await connection.execute(text(f"SELECT {self.now}"))).scalar_one())

    async def serialize(self, connection: AsyncConnection, lock: int) -> None:
        """Let one transaction at a time past this point, among all processes. SQLite has one writer anyway."""
        if self.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": lock})

    async def close(self) -> None:
        for line in self._lines:
            await line.close()
        if self._thread is not None:
            await self._thread.close()
        await self._reader.dispose()
        if self._writer is not self._reader:
            await self._writer.dispose()

    @property
    def connections_in_use(self) -> int:
        """How many connections of the pools are lent out now."""
        pools = {id(engine): engine.pool for engine in (self._reader, self._writer)}.values()
        return sum(pool.checkedout() for pool in pools if isinstance(pool, QueuePool))

    @property
    def url(self) -> URL:
        return self._writer.url

    def sql(self, statement: str) -> TextClause:
        """``statement`` with ``{now}`` replaced by the database's clock."""
        return text(statement.replace("{now}", self.now))


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _configure_sqlite(engine: AsyncEngine, begin: str) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def pragmas(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own type
        cursor = connection.cursor()
        for pragma in SQLITE_PRAGMAS:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()
        # SQLite's own knows the letters of ASCII only.
        connection.create_function("lower", 1, _lower, deterministic=True)

    @event.listens_for(engine.sync_engine, "begin")
    def start(connection: Any) -> None:  # noqa: ANN401
        connection.exec_driver_sql(begin)

    @event.listens_for(engine.sync_engine, "invalidate")
    def let_go(connection: Any, _record: object, _error: BaseException | None) -> None:  # noqa: ANN401
        # Who is cancelled in a statement leaves it open. SQLite then only pretends to close the connection: it keeps
        # the transaction, and with it everybody's right to write, until the statement is collected as garbage.
        with suppress(Exception):  # the connection may be gone already
            connection.rollback()
