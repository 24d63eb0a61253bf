"""The feed of state changes, from the database, whichever process made the change.

Numbers from a sequence commit out of order, so that a reader that remembers the highest it has seen would skip what
commits late. On PostgreSQL a position is therefore (transaction, number), and nothing is read of transactions that
have not all ended. On SQLite, with one writer, the transaction is always 0.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from relay.identity.model import OwnerId
from relay.storage.engine import Database, Dialect
from relay.storage.records import dumps, recordset

log = structlog.get_logger(__name__)

PAGE = 100

_SETTLED: dict[Dialect, str] = {
    "sqlite": "e.xid >= 0",
    "postgresql": "e.xid < pg_snapshot_xmin(pg_current_snapshot())",
}
_NUMBER: dict[Dialect, str] = {"sqlite": "CAST({} AS INTEGER)", "postgresql": "CAST({} AS xid8)"}
_TAIL: dict[Dialect, str] = {
    "sqlite": "SELECT '0' AS xid, COALESCE(max(seq), 0) AS seq FROM events",
    "postgresql": "SELECT CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS xid, 0 AS seq",
}


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader stands: everything up to it has been read. ``xid`` is a number too large for JSON's readers."""

    xid: str
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a submission (by its number); read it to see how it stands."""

    submission: int
    position: Position


class _Listener:
    def __init__(self, owner: OwnerId, position: Position) -> None:
        self.owner = owner
        self.position = position
        self.news = asyncio.Event()


class Feed:
    """Follows the changes of the owners that somebody listens for, with one question for all of them a tick."""

    def __init__(self, db: Database, *, poll_seconds: float) -> None:
        self._db = db
        self._poll = poll_seconds
        self._listeners: set[_Listener] = set()
        self._wake = asyncio.Event()
        number = _NUMBER[db.dialect]
        after = f"(e.xid, e.seq) > ({number}, {{}}) AND {_SETTLED[db.dialect]}"
        listeners = recordset(db.dialect, "listeners", {"n": "int", "owner": "bigint", "xid": "text", "seq": "bigint"})
        self._any = (
            f"SELECT l.n FROM {listeners} AS l WHERE EXISTS"
            f" (SELECT 1 FROM events e WHERE e.owner = l.owner AND {after.format('l.xid', 'l.seq')})"
        )
        self._page = (
            "SELECT e.ref, CAST(e.xid AS text) AS xid, e.seq FROM events e"
            f" WHERE e.owner = :owner AND e.kind = 'feedback' AND {after.format(':xid', ':seq')}"
            " ORDER BY e.xid, e.seq LIMIT :most"
        )

    def wake(self) -> None:
        """Look now: this process has just changed something."""
        self._wake.set()

    async def tail(self) -> Position:
        """The position of a reader who wants only what happens from now on."""
        async with self._db.read() as connection:
            row = (await connection.execute(text(_TAIL[self._db.dialect]))).one()
        return Position(row.xid, row.seq)

    async def follow(self, owner: OwnerId, position: Position, *, idle: float) -> AsyncIterator[Sequence[Change]]:
        """The owner's changes after ``position``, in pages, for ever; an empty one: no news for ``idle`` seconds."""
        listener = _Listener(owner, position)
        self._listeners.add(listener)
        self.wake()
        try:
            while True:
                try:
                    async with asyncio.timeout(idle):
                        await listener.news.wait()
                except TimeoutError:
                    yield ()
                listener.news.clear()
                while changes := await self._read(owner, listener.position):
                    listener.position = changes[-1].position
                    yield changes
        finally:
            self._listeners.discard(listener)

    async def run(self) -> None:
        """Look for news for ever."""
        while True:
            try:
                async with asyncio.timeout(self._poll if self._listeners else None):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._look()
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                log.warning("feed_interrupted", error=type(error).__name__)
                await asyncio.sleep(self._poll)

    async def _look(self) -> None:
        listeners = list(self._listeners)
        if not listeners:
            return
        rows = dumps(
            {"n": n, "owner": one.owner, "xid": one.position.xid, "seq": one.position.seq}
            for n, one in enumerate(listeners)
        )
        async with self._db.read() as connection:
            found = await connection.execute(text(self._any), {"listeners": rows})
            for n in found.scalars():
                listeners[n].news.set()

    async def _read(self, owner: OwnerId, position: Position) -> list[Change]:
        parameters = {"owner": owner, "xid": position.xid, "seq": position.seq, "most": PAGE}
        async with self._db.read() as connection:
            rows = await connection.execute(text(self._page), parameters)
            return [Change(row.ref, Position(row.xid, row.seq)) for row in rows]
