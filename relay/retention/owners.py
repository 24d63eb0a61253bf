"""Erasing one owner because the person asks for it.

In this order: what waits is given up, so that nothing more of it is sent; what it said is erased once no attempt is
under way any more; last the subject and the evidence. Stopped at any point, running it again goes on. A late
acknowledgement still counts as saved, but nothing that was erased comes back with it.

The row of the owner stays, found by its keyed hash: without it a person who comes again would be a stranger whose
tombstones answer nobody, and a repeat of an erased rating would be stored as a new one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.identity.model import OwnerId
from relay.operators import audit
from relay.retention.contents import BATCH, COLUMNS, ON_REQUEST, QUIET, erase, locking, on_deliveries, tell
from relay.retention.model import Copies, Erasure
from relay.storage.engine import Database

LOOK_SECONDS: Final = 0.2
"""How often it is asked whether what is under way has ended."""

_FIND: Final = "SELECT id, sealed_subject IS NOT NULL AS sealed FROM owners WHERE owner_key = :key"
_TENANTS: Final = """
SELECT tenant FROM submissions WHERE owner = :owner UNION SELECT tenant FROM provenance WHERE owner = :owner ORDER BY 1
"""
_COUNT: Final = """
SELECT count(*) AS erased,
    COALESCE(sum(CASE WHEN d.state IN ('pending', 'sending', 'held', 'needs_owner') THEN 1 ELSE 0 END), 0) AS abandoned,
    COALESCE(sum(CASE WHEN d.state = 'sending' THEN 1 ELSE 0 END), 0) AS under_way
FROM submissions s JOIN deliveries d ON d.submission = s.seq
WHERE s.owner = :owner AND s.erased_at IS NULL
"""
_EVIDENCE: Final = "provenance IN (SELECT p.seq FROM provenance p WHERE p.owner = :owner)"
_LAST: Final = "SELECT COALESCE(max(seq), 0) FROM submissions WHERE owner = :owner"
_NEXT: Final = (
    f"SELECT {COLUMNS}, {QUIET} AS quiet FROM submissions s JOIN deliveries d ON d.submission = s.seq"
    " WHERE s.owner = :owner AND s.erased_at IS NULL AND s.seq > :after AND s.seq <= :last ORDER BY s.seq LIMIT :most "
)
_LEFT: Final = """
SELECT count(*) FROM submissions s WHERE s.owner = :owner AND s.erased_at IS NULL AND s.seq <= :last
"""
# The claim is taken away, so that its end changes nothing but to save; its lease says until when to wait for it.
_ABANDON: Final = """
UPDATE deliveries SET state = 'abandoned', state_since = {now}, abandoned_by = :by, abandoned_why = :why,
    claim_token = NULL, claim_cause = NULL, version = version + 1
WHERE id IN :deliveries
"""
_FORGET: Final = "UPDATE owners SET sealed_subject = NULL, seal_kid = NULL, erased_at = {now} WHERE id = :owner"

# By where each attempt went: an agent may have moved. An attempt whose outcome was lost went to what the task is pinned
# to, as far as is known. What retention has erased meanwhile counts: the specialist may have it still.
_COPIES: Final = """
SELECT x.agent, x.origin, sum(x.saved) AS saved, sum(1 - x.saved) AS possibly_received,
    (SELECT c.owner_contact FROM registrations c WHERE c.agent = x.agent AND c.owner_contact IS NOT NULL
     ORDER BY c.version DESC LIMIT 1) AS contact
FROM (
    SELECT d.id, d.agent, r.origin, max(CASE WHEN a.outcome = 'saved' THEN 1 ELSE 0 END) AS saved
    FROM submissions s JOIN deliveries d ON d.submission = s.seq JOIN attempts a ON a.delivery = d.id
    JOIN registrations r ON r.agent = d.agent AND r.version = COALESCE(a.registration_version, s.registration_version)
    WHERE s.owner = :owner AND (a.outcome = 'saved' OR a.ambiguous)
    GROUP BY d.id, d.agent, r.origin) AS x
GROUP BY x.agent, x.origin ORDER BY x.agent, x.origin
"""

WAITING: Final = frozenset({"pending", "sending", "held", "needs_owner"})


@dataclass
class _Tally:
    """What has been done so far, by tenant, and of it what was just being sent."""

    erased: Counter[str] = field(default_factory=Counter)
    abandoned: Counter[str] = field(default_factory=Counter)
    under_way: int = 0


class OwnerErasure:
    """The erasure of one owner."""

    def __init__(self, db: Database, owner: OwnerId, owner_key: str, *, batch: int = BATCH) -> None:
        self._db = db
        self._owner = owner
        self._key = owner_key
        self._batch = batch

    @classmethod
    async def find(cls, db: Database, owner_key: str) -> "OwnerErasure | None":
        """The erasure of the owner of this public name; None: there is no such owner."""
        async with db.read() as connection:
            row = (await connection.execute(text(_FIND), {"key": owner_key})).first()
        return None if row is None else cls(db, OwnerId(row.id), owner_key)

    async def look(self) -> Erasure:
        """What a run would do now. Changes nothing."""
        async with self._db.read() as connection:
            counts = (await connection.execute(text(_COUNT), {"owner": self._owner})).one()
            kept = (await connection.execute(text(_FIND), {"key": self._key})).one()
            evidence = text(f"SELECT count(*) FROM provenance_evidence WHERE {_EVIDENCE}")
            return Erasure(
                erased=counts.erased,
                abandoned=counts.abandoned,
                under_way=counts.under_way,
                evidence=int(await connection.scalar(evidence, {"owner": self._owner}) or 0),
                subject=bool(kept.sealed),
                copies=await self._copies(connection),
            )

    async def run(
        self,
        by: str,
        why: str,
        *,
        advance: Callable[[int], None] = lambda _: None,
        waiting: Callable[[int], None] = lambda _: None,
    ) -> Erasure:
        """Erase all that is there now; what the owner does from now on is theirs again.

        ``advance`` is told how many were erased, ``waiting`` how many cannot be yet since an attempt is under way: that
        ends with their lease at the latest. The audit log tells of the beginning and the end.
        """
        tenants, last = await self._begin(by, why)
        tally = _Tally()
        while left := await self._pass(by, last, tally, advance):
            waiting(left)
            await asyncio.sleep(LOOK_SECONDS)
        return await self._finish(by, why, tenants, tally)

    async def _begin(self, by: str, why: str) -> tuple[Sequence[str | None], int]:
        async with self._db.write() as connection:
            found = (await connection.execute(text(_TENANTS), {"owner": self._owner})).scalars().all()
            last = int(await connection.scalar(text(_LAST), {"owner": self._owner}) or 0)
            tenants: Sequence[str | None] = found or (None,)
            await self._record(connection, "owner.erase", by, why, dict.fromkeys(tenants))
        return tenants, last

    async def _pass(self, by: str, last: int, tally: _Tally, advance: Callable[[int], None]) -> int:
        """Once through everything up to ``last``; how many are left."""
        after = 0
        while rows := await self._step(by, after, last, tally, advance):
            after = rows[-1].seq
        async with self._db.read() as connection:
            return int(await connection.scalar(text(_LEFT), {"owner": self._owner, "last": last}) or 0)

    async def _step(
        self, by: str, after: int, last: int, tally: _Tally, advance: Callable[[int], None]
    ) -> Sequence[Row[Any]]:
        """One batch, one transaction: the rows it went through."""
        wanted = {"owner": self._owner, "after": after, "last": last, "most": self._batch}
        async with self._db.write() as connection:
            rows = (await connection.execute(self._db.sql(_NEXT + locking(self._db)), wanted)).all()
            waiting = [row for row in rows if row.state in WAITING]
            await self._abandon(connection, by, waiting)
            erased = await erase(self._db, connection, [row for row in rows if row.quiet])
        tally.abandoned.update(row.tenant for row in waiting)
        tally.under_way += sum(1 for row in waiting if row.state == "sending")
        tally.erased.update(row.tenant for row in erased)
        advance(len(erased))
        return rows

    async def _abandon(self, connection: AsyncConnection, by: str, rows: Sequence[Row[Any]]) -> None:
        await on_deliveries(self._db, connection, _ABANDON, rows, by=by, why=ON_REQUEST)
        await tell(self._db, connection, rows)

    async def _finish(self, by: str, why: str, tenants: Sequence[str | None], tally: _Tally) -> Erasure:
        async with self._db.write() as connection:
            kept = (await connection.execute(text(_FIND), {"key": self._key})).one()
            evidence = await connection.execute(
                text(f"DELETE FROM provenance_evidence WHERE {_EVIDENCE}"), {"owner": self._owner}
            )
            await connection.execute(self._db.sql(_FORGET), {"owner": self._owner})
            done = Erasure(
                erased=tally.erased.total(),
                abandoned=tally.abandoned.total(),
                under_way=tally.under_way,
                evidence=evidence.rowcount,
                subject=bool(kept.sealed),
                copies=await self._copies(connection),
            )
            counts = {
                tenant: {"erased": tally.erased[tenant or ""], "abandoned": tally.abandoned[tenant or ""]}
                for tenant in tenants
            }
            await self._record(connection, "owner.erased", by, why, counts)
        return done

    async def _copies(self, connection: AsyncConnection) -> tuple[Copies, ...]:
        rows = await connection.execute(text(_COPIES), {"owner": self._owner})
        return tuple(
            Copies(
                agent=row.agent,
                origin=row.origin,
                contact=row.contact,
                saved=int(row.saved),
                possibly_received=int(row.possibly_received),
            )
            for row in rows
        )

    async def _record(
        self,
        connection: AsyncConnection,
        action: str,
        by: str,
        why: str,
        after: Mapping[str | None, Mapping[str, int] | None],
    ) -> None:
        """One entry for each tenant: an operator sees the own tenant's only."""
        at = await self._db.now_ms(connection)
        for tenant, counts in after.items():
            await audit.record(
                connection, at=at, actor=by, action=action, target=self._key, tenant=tenant, after=counts, why=why
            )
