"""Rotating the owners' two keys: put the configured ones in force, then move what is stored under former ones.

Everything that is done is in the rows themselves, a batch a transaction: stopped at any point, the next run goes on.
Gateways keep running, since they read with both keys and write with what is in force.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.identity import key_checks
from relay.identity.keyfiles import KeyName
from relay.identity.model import OwnerId, OwnerTuple
from relay.identity.owner_keys import OwnerKeys, SubjectUnreadable
from relay.identity.rekeying import rekey, reseal
from relay.operators import audit
from relay.storage.engine import Database

log = structlog.get_logger(__name__)

BATCH: Final = 200

# What can be moved while its owner is away: the subject is sealed, or is the client id of a machine.
_MOVABLE: Final = (
    "FROM owners WHERE id > :after AND ((sealed_subject IS NOT NULL AND (seal_kid <> :seal OR pepper_kid <> :pepper)) "
    "OR (kind = 'machine' AND pepper_kid <> :pepper))"
)
_NEXT: Final = (
    f"SELECT id, owner_key, kind, issuer, client, pepper_kid, sealed_subject, seal_kid {_MOVABLE} "
    "ORDER BY id LIMIT :batch"
)
_COUNT: Final = text(
    "SELECT "
    "COALESCE(SUM(CASE WHEN sealed_subject IS NOT NULL AND seal_kid <> :seal THEN 1 ELSE 0 END), 0) AS sealed, "
    "COALESCE(SUM(CASE WHEN (sealed_subject IS NOT NULL OR kind = 'machine') AND pepper_kid <> :pepper "
    "THEN 1 ELSE 0 END), 0) AS known, "
    "COALESCE(SUM(CASE WHEN sealed_subject IS NULL AND kind <> 'machine' AND pepper_kid <> :pepper "
    "THEN 1 ELSE 0 END), 0) AS unknown FROM owners"
)
_MOVABLE_COUNT: Final = text(f"SELECT COUNT(*) {_MOVABLE}")
_USES: Final = text(
    "SELECT 'pepper' AS name, pepper_kid AS kid, COUNT(*) AS owners FROM owners GROUP BY pepper_kid UNION ALL "
    "SELECT 'sealing_key', seal_kid, COUNT(*) FROM owners WHERE sealed_subject IS NOT NULL GROUP BY seal_kid"
)


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key by its id, how many owners are stored under it, and since when it was in force (ms); never the key."""

    name: KeyName
    kid: str
    owners: int
    since: int | None
    in_force: bool


@dataclass(frozen=True, slots=True)
class Moved:
    """How many owners: sealed and found by the current keys now (or, before: to be), left as they are, and why.

    ``absent``: stored under a former pepper until they come again. ``unreadable``: their sealed subject does not open.
    """

    resealed: int = 0
    rekeyed: int = 0
    absent: int = 0
    unreadable: int = 0

    def shown(self) -> dict[str, int]:
        return {
            "resealed": self.resealed,
            "rekeyed": self.rekeyed,
            "absent": self.absent,
            "unreadable": self.unreadable,
        }


async def uses(db: Database) -> list[KeyUse]:
    """Every key that the database knows or that an owner is stored under, in the order of their coming into force."""
    async with db.read() as connection:
        checks = await key_checks.read(connection)
        counts = {(row.name, row.kid): row.owners for row in await connection.execute(_USES)}
    known = dict.fromkeys([*checks.values, *counts])
    return [
        KeyUse(name, kid, counts.get((name, kid), 0), checks.since.get((name, kid)), checks.in_force.get(name) == kid)
        for name, kid in known
    ]


class Rotation:
    """One run of it, towards the configured current keys."""

    def __init__(self, db: Database, keys: OwnerKeys, *, batch: int = BATCH) -> None:
        self._db = db
        self._keys = keys
        self._batch = batch
        self._target = {"pepper": keys.current["pepper"].kid, "seal": keys.current["sealing_key"].kid}

    async def look(self) -> Moved:
        """What a run would do, and whom it would leave until they come. Changes nothing."""
        async with self._db.read() as connection:
            row = (await connection.execute(_COUNT, self._target)).one()
        return Moved(resealed=row.sealed, rekeyed=row.known, absent=row.unknown)

    async def pending(self) -> int:
        """How many owners a run goes through."""
        async with self._db.read() as connection:
            return int(await connection.scalar(_MOVABLE_COUNT, {**self._target, "after": 0}) or 0)

    async def run(self, by: str, why: str | None, advance: Callable[[int], None]) -> Moved:
        """Put the current keys in force and move everybody who can be moved; ``advance`` is told of each batch.

        Two entries in the audit log: one commits with the keys' coming into force, one tells how it ended.
        """
        before = await self._begin(by, why)
        tally, after = Counter[str](), 0
        while rows := await self._step(after, tally):
            after = rows[-1].id
            advance(len(rows))
        moved = replace(Moved(**tally), absent=(await self.look()).absent)
        async with self._db.write() as connection:
            await self._record(connection, "keys.rotated", by, why, before, moved.shown())
        return moved

    async def _begin(self, by: str, why: str | None) -> Mapping[str, str]:
        async with self._db.write() as connection:
            known = await key_checks.put_in_force(self._db, connection, self._keys.current.values())
            before = {str(name): kid for name, kid in known.in_force.items()}
            await self._record(connection, "keys.rotate", by, why, before, {})
        return before

    async def _record(
        self,
        connection: AsyncConnection,
        action: str,
        by: str,
        why: str | None,
        before: Mapping[str, str],
        counts: Mapping[str, int],
    ) -> None:
        await audit.record(
            connection,
            at=await self._db.now_ms(connection),
            actor=by,
            action=action,
            target="owners",
            before=before,
            after={**{name: key.kid for name, key in self._keys.current.items()}, **counts},
            why=why,
        )

    async def _step(self, after: int, tally: Counter[str]) -> Sequence[Row[Any]]:
        """One batch, one transaction: the rows it went through."""
        lock = " FOR UPDATE" if self._db.dialect == "postgresql" else ""
        done = Counter[str]()
        async with self._db.write() as connection:
            wanted = {**self._target, "after": after, "batch": self._batch}
            rows = (await connection.execute(text(_NEXT + lock), wanted)).all()
            for row in rows:
                done.update(await self._move(connection, row))
        tally.update(done)
        return rows

    async def _move(self, connection: AsyncConnection, row: Row[Any]) -> list[str]:
        """What was done: some of ``resealed``, ``rekeyed``, ``unreadable``."""
        try:
            owner = OwnerTuple(row.kind, row.issuer, row.client, self._subject(row))
        except SubjectUnreadable as error:
            log.error("subject_unreadable", reason=str(error))
            return ["unreadable"]
        done = []
        if row.sealed_subject is not None and row.seal_kid != self._target["seal"]:
            kid, sealed = self._keys.seal(owner.subject, row.owner_key, owner)
            if await reseal(connection, OwnerId(row.id), former=row.seal_kid, kid=kid, sealed=sealed):
                done.append("resealed")
        if row.pepper_kid != (kid := self._target["pepper"]):
            lookup = self._keys.lookups(owner)[kid]
            if await rekey(connection, OwnerId(row.id), former=row.pepper_kid, kid=kid, lookup=lookup):
                done.append("rekeyed")
        return done

    def _subject(self, row: Row[Any]) -> str:
        if row.sealed_subject is None:
            return str(row.client)  # a machine
        return self._keys.unseal(
            bytes(row.sealed_subject), row.seal_kid, owner_key=row.owner_key, issuer=row.issuer, client=row.client
        )
