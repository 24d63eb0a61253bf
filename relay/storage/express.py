"""The way to the database for the statements that everything waits for: accepting, claiming, settling.

A pool, a greenlet and result objects cost as much as such a statement does. So each of them has, on PostgreSQL, a
connection of its own on which it is prepared once (`Line`); and on SQLite a whole transaction is one trip to a thread
that writes (`WritingThread`).
"""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

T = TypeVar("T")

SQLITE_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "recursive_triggers = ON")
SQLITE_BUSY_SECONDS = 30.0
"""How long a writer waits for its turn and for other processes, together."""
SQLITE_LEAST_BUSY_SECONDS = 0.1

LINE_SECONDS = 30.0
"""How long a statement waits for its turn on a line: as long as others do for a connection of the pool."""

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


class Line:
    """One connection to PostgreSQL in autocommit, opened when it is first needed and again when it has broken.

    One statement at a time. A statement whose connection turns out to be gone is made once more on a new one: it must
    be one that may be repeated, whether or not it was carried out the first time.
    """

    def __init__(self, url: URL) -> None:
        self._conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
        self._connection: psycopg.AsyncConnection[dict[str, Any]] | None = None
        self._turn = asyncio.Lock()

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the statement (with ``:name`` parameters) returns, once it is committed.

        Raises `DBAPIError`; and SQLAlchemy's `TimeoutError` where those before it do not come to an end, as with a
        server that does not answer any more.
        """
        try:
            async with asyncio.timeout(LINE_SECONDS):
                await self._turn.acquire()
        except TimeoutError:
            raise PoolTimeoutError("others wait for an answer on the same connection") from None
        try:
            return await self._rows_twice(statement, parameters)
        finally:
            self._turn.release()

    async def _rows_twice(self, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        known = self._connection is not None
        try:
            return await self._rows(statement, parameters)
        except psycopg.Error as error:
            if not (known and self._is_gone()):
                raise _wrapped(error, psycopg.Error) from error
        try:
            return await self._rows(statement, parameters)
        except psycopg.Error as error:
            raise _wrapped(error, psycopg.Error) from error

    async def _rows(self, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._connection is None or self._connection.closed:
            self._connection = await self._connect()
        connection = self._connection
        try:
            cursor = await connection.execute(statement, parameters, prepare=True)
            return await cursor.fetchall()
        except BaseException:
            # Cut off in the middle, it may still hold the answer to what nobody waits for.
            if connection.broken or connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                await connection.close()
            raise

    async def _connect(self) -> psycopg.AsyncConnection[dict[str, Any]]:
        connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True, row_factory=dict_row)
        # The plan depends on no parameter: all rows come in one JSON text, of which the planner knows nothing anyway.
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        # It is made once, perhaps while the tables are empty, and must serve when they are not.
        await connection.execute("SET enable_seqscan = off")
        return connection

    def _is_gone(self) -> bool:
        return self._connection is None or self._connection.closed

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


def for_psycopg(statement: str) -> str:
    """The statement with its ``:name`` parameters as psycopg writes them."""
    return _PARAMETER.sub(r"%(\1)s", statement.replace("%", "%%"))


class WritingThread:
    """A connection to SQLite in a thread of its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="sqlite-writer")
        self._connection: sqlite3.Connection | None = None
        self._patience = SQLITE_BUSY_SECONDS

    async def run(self, work: Callable[[sqlite3.Connection], T], seconds: float = SQLITE_BUSY_SECONDS) -> T:
        """Carry out ``work`` as one transaction; returns after the commit. Raises `DBAPIError`.

        ``seconds`` is how long to wait for the lock of another process. A caller who is cancelled leaves; the
        transaction comes to its end all the same.
        """
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.shield(loop.run_in_executor(self._executor, self._transaction, work, seconds))
        except sqlite3.Error as error:
            raise _wrapped(error, sqlite3.Error) from error

    def _transaction(self, work: Callable[[sqlite3.Connection], T], seconds: float) -> T:
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        if abs(seconds - self._patience) > 1:  # a little more or less is not worth a statement
            connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")
            self._patience = seconds
        connection.execute("BEGIN IMMEDIATE")
        try:
            result = work(connection)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=SQLITE_BUSY_SECONDS, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        for pragma in SQLITE_PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    async def close(self) -> None:
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._connection.close)
            self._connection = None
        self._executor.shutdown(wait=False)


def _wrapped(error: Exception, base: type[Exception]) -> Exception:
    """The driver's error as SQLAlchemy would raise it, without the parameters, so that every caller knows one kind."""
    wrapped: Exception = DBAPIError.instance(None, None, error, base, hide_parameters=True)
    return wrapped
