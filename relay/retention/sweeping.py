"""Erasing what is older than its tenant's policy allows: final submissions only, a batch a transaction.

Stopped at any point, the next sweep goes on. Any number of them run side by side.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.operators import audit
from relay.retention.contents import BATCH, COLUMNS, FINAL_STATES, QUIET, erase, locking
from relay.retention.model import DAY_MS, Erased, Policy
from relay.storage.engine import Database

# From tenant to tenant by the index of what is kept: a plain DISTINCT would read all of it, and any other index every
# tombstone. No tenant's name is empty.
_TENANTS: Final = """
WITH RECURSIVE known(tenant) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT s.tenant FROM submissions s WHERE s.erased_at IS NULL AND s.tenant > known.tenant
            ORDER BY s.tenant, s.created_at, s.seq LIMIT 1)
    FROM known WHERE known.tenant IS NOT NULL)
SELECT tenant FROM known WHERE tenant <> ''
"""
_OLDEST: Final = "SELECT min(created_at) FROM submissions WHERE tenant = :tenant AND erased_at IS NULL"
_DUE: Final = (
    "FROM submissions s JOIN deliveries d ON d.submission = s.seq"
    " WHERE s.tenant = :tenant AND s.erased_at IS NULL AND s.created_at < {now} - :age_ms"
    f" AND d.state IN ({FINAL_STATES}) AND {QUIET}"
)
_COUNT: Final = f"SELECT s.agent, count(*) AS due {_DUE} GROUP BY s.agent ORDER BY s.agent"
_NEXT: Final = (
    f"SELECT {COLUMNS} {_DUE} AND (s.created_at, s.seq) > (:after_at, :after_seq)"
    " ORDER BY s.created_at, s.seq LIMIT :most "
)


async def tenants(db: Database) -> list[str]:
    """The tenants of whom something is kept that can be erased, in order."""
    async with db.read() as connection:
        return list((await connection.execute(db.sql(_TENANTS))).scalars())


async def oldest(db: Database, tenant: str) -> int | None:
    """When the oldest submission that is kept of a tenant was accepted, in milliseconds."""
    async with db.read() as connection:
        found: int | None = await connection.scalar(db.sql(_OLDEST), {"tenant": tenant})
        return found


class Sweep:
    """One policy, applied. ``by`` is the actor of the audit log."""

    def __init__(self, db: Database, policy: Policy, *, by: str, batch: int = BATCH) -> None:
        self._db = db
        self._policy = policy
        self._by = by
        self._batch = batch

    async def look(self) -> Erased:
        """What a run would erase now. Changes nothing."""
        due: dict[str, dict[str, int]] = {}
        for tenant, days in await self._governed():
            async with self._db.read() as connection:
                wanted = {"tenant": tenant, "age_ms": days * DAY_MS}
                rows = (await connection.execute(self._db.sql(_COUNT), wanted)).all()
            if rows:
                due[tenant] = {row.agent: row.due for row in rows}
        return due

    async def run(self, advance: Callable[[int], None] = lambda _: None) -> Erased:
        """Erase what is due; ``advance`` is told of each batch.

        Two entries in the audit log for each tenant of whom something is: one commits with the first of it, one tells
        how much it was.
        """
        return {
            tenant: erased
            for tenant, days in await self._governed()
            if (erased := await self._of(tenant, days, advance))
        }

    async def _governed(self) -> list[tuple[str, int]]:
        """The tenants of whom anything is erased by age, each with its days."""
        if not self._policy.erases:
            return []
        found = [(tenant, self._policy.days_for(tenant)) for tenant in await tenants(self._db)]
        return [(tenant, days) for tenant, days in found if days is not None]

    async def _of(self, tenant: str, days: int, advance: Callable[[int], None]) -> dict[str, int]:
        erased = Counter[str]()
        after = (-1, -1)
        while rows := await self._step(tenant, days, after, begun=bool(erased)):
            after = (rows[-1][0].created_at, rows[-1][0].seq)
            gone = [row.agent for row, really in rows if really]
            erased.update(gone)
            advance(len(gone))
        if erased:
            async with self._db.write() as connection:
                after_all = {"days": days, "erased": erased.total(), "agents": dict(sorted(erased.items()))}
                await self._record(connection, "retention.swept", tenant, after_all)
        return dict(sorted(erased.items()))

    async def _step(
        self, tenant: str, days: int, after: tuple[int, int], *, begun: bool
    ) -> Sequence[tuple[Row[Any], bool]]:
        """One batch, one transaction: the rows it went through, and whether each was erased by it."""
        wanted = {
            "tenant": tenant,
            "age_ms": days * DAY_MS,
            "after_at": after[0],
            "after_seq": after[1],
            "most": self._batch,
        }
        async with self._db.write() as connection:
            rows = (await connection.execute(self._db.sql(_NEXT + locking(self._db)), wanted)).all()
            erased = {row.seq for row in await erase(self._db, connection, rows)}
            if erased and not begun:
                await self._record(connection, "retention.sweep", tenant, {"days": days})
        return [(row, row.seq in erased) for row in rows]

    async def _record(self, connection: AsyncConnection, action: str, tenant: str, after: dict[str, Any]) -> None:
        at = await self._db.now_ms(connection)
        await audit.record(
            connection, at=at, actor=self._by, action=action, target="submissions", tenant=tenant, after=after
        )
