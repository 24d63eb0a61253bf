"""Throwing old events away. What is gone lies below the feed's horizon, so that a reader knows (`relay.feedback.feed`).

The table is gone through by its numbers, oldest first, until something is too young; so it needs no index by time. One
process at a time: whoever comes meanwhile leaves it to that one.

A database that was restored into another cluster is gone through as a whole once: what carries transaction numbers from
there would come up in the feed when this cluster reaches them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Row, TextClause, bindparam
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.retention.model import DAY_MS
from relay.storage.engine import Database, Dialect
from relay.storage.epochs import EPOCH

BATCH: Final = 1000

# Never what readers have not reached: they stop below the oldest running transaction. On SQLite never the newest, by
# whose number the next one is counted.
_READ: Final[Mapping[Dialect, str]] = {
    "sqlite": "e.seq < (SELECT max(n.seq) FROM events n)",
    "postgresql": "e.xid < pg_snapshot_xmin(pg_current_snapshot())",
}
# Visible, and yet by a transaction that has not begun: it came with a dump of another cluster.
_FOREIGN: Final[Mapping[Dialect, str]] = {
    "sqlite": "1 = 0",
    "postgresql": "e.xid >= pg_snapshot_xmax(pg_current_snapshot())",
}
_NUMBER: Final[Mapping[Dialect, str]] = {"sqlite": "CAST(:xid AS INTEGER)", "postgresql": "CAST(:xid AS xid8)"}
_LOCK: Final[Mapping[Dialect, str]] = {"sqlite": "", "postgresql": "FOR UPDATE SKIP LOCKED"}

_HORIZON: Final = "SELECT epoch = {here} AS ours FROM feed_horizon WHERE id = 1 {lock}"
_NEXT: Final = """
SELECT e.seq, CAST(e.xid AS text) AS xid, (e.at < {now} - :age_ms AND {read}) AS old, {foreign} AS from_elsewhere
FROM events e WHERE e.seq > :after ORDER BY e.seq LIMIT :most
"""
_DELETE: Final = "DELETE FROM events WHERE seq IN :seqs"
_ADVANCE: Final = """
UPDATE feed_horizon SET xid = {number}, seq = :seq WHERE id = 1 AND (xid, seq) < ({number}, :seq)
"""
_ADOPT: Final = "UPDATE feed_horizon SET epoch = {here}, xid = {number}, seq = 0 WHERE id = 1"


class Pruning:
    """Throws events away that are older than so many days."""

    def __init__(self, db: Database, *, days: float, batch: int = BATCH) -> None:
        self._db = db
        self._age_ms = round(days * DAY_MS)
        self._batch = batch

    async def run(self) -> int:
        """Throw away what is old, a batch a transaction; how many events that were."""
        gone, after = 0, 0
        while True:
            async with self._db.write() as connection:
                ours = await self._ours(connection)
                if ours is None:
                    return gone  # another process is at it
                rows = await self._next(connection, after)
                going = [row for row in rows if (row.old if ours else row.from_elsewhere)]
                await self._delete(connection, going)
                if ours:
                    await self._advance(connection, going)
                elif len(rows) < self._batch:
                    # What came from elsewhere is gone. Nobody has a position here from before: begin.
                    await connection.execute(self._sql(_ADOPT), {"xid": "0"})
            gone += len(going)
            if ours and len(going) < self._batch:
                return gone
            after = 0 if not ours and len(rows) < self._batch else rows[-1].seq

    async def _ours(self, connection: AsyncConnection) -> bool | None:
        """Whether the horizon is of this database; False also where nothing was ever thrown away. None: locked."""
        row = (await connection.execute(self._sql(_HORIZON))).first()
        return None if row is None else bool(row.ours)

    async def _next(self, connection: AsyncConnection, after: int) -> Sequence[Row[Any]]:
        wanted = {"age_ms": self._age_ms, "after": after, "most": self._batch}
        return (await connection.execute(self._sql(_NEXT), wanted)).all()

    async def _delete(self, connection: AsyncConnection, rows: Sequence[Row[Any]]) -> None:
        if rows:
            statement = self._sql(_DELETE).bindparams(bindparam("seqs", expanding=True))
            await connection.execute(statement, {"seqs": [row.seq for row in rows]})

    async def _advance(self, connection: AsyncConnection, rows: Sequence[Row[Any]]) -> None:
        """Readers who stand before the last of these have missed it, from the moment on in which it is gone."""
        if rows:
            xid, seq = max((int(row.xid), row.seq) for row in rows)
            await connection.execute(self._sql(_ADVANCE), {"xid": str(xid), "seq": seq})

    def _sql(self, statement: str) -> TextClause:
        dialect = self._db.dialect
        parts = {
            "here": EPOCH[dialect],
            "lock": _LOCK[dialect],
            "number": _NUMBER[dialect],
            "read": _READ[dialect],
            "foreign": _FOREIGN[dialect],
        }
        for name, part in parts.items():
            statement = statement.replace("{" + name + "}", part)
        return self._db.sql(statement)
