"""The feed of state changes, from the database, whichever process made the change.

Numbers from a sequence commit out of order, so that a reader that remembers the highest it has seen would skip what
commits late. On PostgreSQL a position is therefore (transaction, number), and nothing is read of transactions that
have not all ended. On SQLite, with one writer, the transaction is always 0.

Old events are thrown away (`relay.retention.pruning`), up to a horizon that is kept. A reader who stands before it, or
who comes with a position of another database, has missed something nobody can tell any more: they are told so, once,
and go on from now.
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
from relay.storage.epochs import EPOCH
from relay.storage.records import ColumnType, dumps, recordset

log = structlog.get_logger(__name__)

PAGE = 100

_SETTLED: dict[Dialect, str] = {
    "sqlite": "e.xid >= 0",
    "postgresql": "e.xid < pg_snapshot_xmin(pg_current_snapshot())",
}
_NUMBER: dict[Dialect, str] = {"sqlite": "CAST({} AS INTEGER)", "postgresql": "CAST({} AS xid8)"}
_TAIL: dict[Dialect, str] = {
    "sqlite": "SELECT '0' AS xid, COALESCE(max(seq), 0) AS seq, {epoch} AS epoch FROM events",
    "postgresql": "SELECT CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS xid, 0 AS seq, {epoch} AS epoch",
}
# A position that was never issued here: an older copy of the database has been put in place of the one it came from.
_AHEAD: dict[Dialect, str] = {
    "sqlite": "{seq} > (SELECT COALESCE(max(n.seq), 0) FROM events n)",
    "postgresql": "{xid} > pg_snapshot_xmax(pg_current_snapshot())",
}
_LOST = """
({epoch} <> {here} OR {ahead} OR EXISTS
    (SELECT 1 FROM feed_horizon h WHERE h.epoch = {here} AND (h.xid, h.seq) > ({xid}, {seq})))
"""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader stands: everything up to it has been read. ``xid`` is a number too large for JSON's readers;
    ``epoch`` names the database that both numbers are of (`relay.storage.epochs`).
    """

    xid: str
    seq: int
    epoch: str


@dataclass(frozen=True, slots=True)
class Change:
    """Something happened to a submission (by its number); read it to see how it stands."""

    submission: int
    position: Position


@dataclass(frozen=True, slots=True)
class Resync:
    """The reader has missed changes that are not kept any more: list again, and go on from ``position``."""

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
        columns: dict[str, ColumnType] = {
            "n": "int",
            "owner": "bigint",
            "xid": "text",
            "seq": "bigint",
            "epoch": "text",
        }
        listeners = recordset(db.dialect, "listeners", columns)
        self._any = (
            f"SELECT l.n FROM {listeners} AS l WHERE EXISTS"
            f" (SELECT 1 FROM events e WHERE e.owner = l.owner AND {after.format('l.xid', 'l.seq')})"
            f" OR {_lost(db.dialect, number.format('l.xid'), 'l.seq', 'l.epoch')}"
        )
        # Whether the reader is lost is asked in the statement that reads: nothing is thrown away in between.
        self._page = (
            f"SELECT {_lost(db.dialect, number.format(':xid'), ':seq', ':epoch')} AS lost, c.ref,"
            " CAST(c.xid AS text) AS xid, c.seq FROM (SELECT 1) AS one LEFT JOIN"
            " (SELECT e.ref, e.xid, e.seq FROM events e"
            f" WHERE e.owner = :owner AND e.kind = 'feedback' AND {after.format(':xid', ':seq')}"
            " ORDER BY e.xid, e.seq LIMIT :most) AS c ON true ORDER BY c.xid, c.seq"
        )

    def wake(self) -> None:
        """Look now: this process has just changed something."""
        self._wake.set()

    async def tail(self) -> Position:
        """The position of a reader who wants only what happens from now on."""
        async with self._db.read() as connection:
            tail = _TAIL[self._db.dialect].replace("{epoch}", EPOCH[self._db.dialect])
            row = (await connection.execute(text(tail))).one()
        return Position(row.xid, row.seq, row.epoch)

    async def follow(
        self, owner: OwnerId, position: Position, *, idle: float
    ) -> AsyncIterator[Sequence[Change] | Resync]:
        """The owner's changes after ``position``, in pages, for ever; an empty one: no news for ``idle`` seconds.

        A `Resync` instead where something between ``position`` and now is not kept any more.
        """
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
                while news := await self._read(owner, listener.position):
                    listener.position = news.position if isinstance(news, Resync) else news[-1].position
                    yield news
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
            {
                "n": n,
                "owner": one.owner,
                "xid": one.position.xid,
                "seq": one.position.seq,
                "epoch": one.position.epoch,
            }
            for n, one in enumerate(listeners)
        )
        async with self._db.read() as connection:
            found = await connection.execute(text(self._any), {"listeners": rows})
            for n in found.scalars():
                listeners[n].news.set()

    async def _read(self, owner: OwnerId, position: Position) -> list[Change] | Resync:
        parameters = {
            "owner": owner,
            "xid": position.xid,
            "seq": position.seq,
            "epoch": position.epoch,
            "most": PAGE,
        }
        async with self._db.read() as connection:
            rows = (await connection.execute(text(self._page), parameters)).all()
        if rows[0].lost:
            return Resync(await self.tail())
        return [Change(row.ref, Position(row.xid, row.seq, position.epoch)) for row in rows if row.ref is not None]


def _lost(dialect: Dialect, xid: str, seq: str, epoch: str) -> str:
    """SQL: a reader at this position has missed something that cannot be read any more."""
    parts = {"here": EPOCH[dialect], "ahead": _AHEAD[dialect], "epoch": epoch, "xid": xid, "seq": seq}
    statement = _LOST
    for name, part in parts.items():
        statement = statement.replace("{" + name + "}", part)
    return statement
