"""The checks in the database: claimed for a while, settled with what was found."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId, Snapshot
from relay.delivery import statements as outbox
from relay.delivery.model import DeliveryId, State
from relay.delivery.reconcile import statements
from relay.delivery.reconcile.model import Candidate, Check, Checked, Confirmation, Reference, choose
from relay.delivery.store import CHANGED
from relay.storage.engine import Database
from relay.storage.records import dumps, recordset

MOST = 1_000
"""How many of an agent's deliveries are looked at in one claim. More of one owner are beyond one list anyway."""

MARGIN_SECONDS = 2.0
"""What a reading may take beyond its deadline, for its settle."""

CLAIMS_LOCK = 5_208_443_107
"""Of the claims of all processes, so that no two of them share out one owner's rows."""


class Checks:
    """The deliveries that are to be read back."""

    def __init__(self, db: Database, *, deadline_seconds: float) -> None:
        self._db = db
        self._horizon_ms = round((deadline_seconds + MARGIN_SECONDS) * 1000)
        # Long enough that a claim has ended before its rows come near enough to be claimed with others again.
        self._lease_ms = 3 * self._horizon_ms
        self._statements = _Statements(db)

    async def claim(self, slots: Mapping[AgentId, int], snapshot: Snapshot) -> list[Check]:
        """Claim what is due of at most ``slots`` owners an agent: all that is due, or soon will be, of each of them.

        A claim that is never settled comes back when its lease ends, and what it would have found with it.
        """
        rows = [
            {"agent": agent, "revision": snapshot[agent].revision}
            for agent, free in slots.items()
            if free > 0 and snapshot[agent].approved
        ]
        if not rows:
            return []
        async with self._db.read() as connection:
            # Looking first keeps an idle process from taking any lock at every poll.
            found = await connection.execute(text(self._statements.due_agents), {"slots": dumps(rows)})
            agents = list(found.scalars())
        if not agents:
            return []
        async with self._db.write() as connection:
            if not await self._is_alone(connection):
                return []
            chosen = [c for agent in agents for c in choose(await self._candidates(connection, agent), slots[agent])]
            return await self._take(connection, chosen)

    async def _is_alone(self, connection: AsyncConnection) -> bool:
        if self._db.dialect == "sqlite":
            return True
        taken = await connection.execute(text("SELECT pg_try_advisory_xact_lock(:lock)"), {"lock": CLAIMS_LOCK})
        return bool(taken.scalar_one())

    async def _candidates(self, connection: AsyncConnection, agent: str) -> list[Candidate]:
        found = await connection.execute(
            text(self._statements.candidates), {"agent": agent, "horizon_ms": self._horizon_ms, "most": MOST}
        )
        return [
            Candidate(delivery=row.id, owner=row.owner, check_due_at=row.check_due_at, due=bool(row.due))
            for row in found
        ]

    async def _take(self, connection: AsyncConnection, chosen: Sequence[Candidate]) -> list[Check]:
        if not chosen:
            return []
        rows = dumps({"id": c.delivery, "check_due_at": c.check_due_at} for c in chosen)
        taken = await connection.execute(text(self._statements.take), {"chosen": rows, "lease_ms": self._lease_ms})
        ids = dumps({"id": identifier} for identifier in taken.scalars())
        found = await connection.execute(text(self._statements.taken), {"taken": ids})
        return [_check(row) for row in found.mappings()]

    async def settle(self, checked: Sequence[Checked]) -> Mapping[DeliveryId, State]:
        """Write what was found, and tell of what is new; gives the state of each delivery that was still claimed.

        A row that is being settled as a delivery at this moment is left out: its check comes back.
        """
        by_id: dict[int, Checked] = {c.check.delivery: c for c in checked}
        sql = self._statements
        async with self._db.write() as connection:
            still = await connection.execute(text(sql.untouched), {"chosen": dumps(map(_fence, checked))})
            rows = dumps(_row(by_id[DeliveryId(identifier)]) for identifier in still.scalars())
            found = await connection.execute(text(sql.apply), {"findings": rows})
            applied: dict[DeliveryId, dict[str, Any]] = {row["id"]: dict(row) for row in found.mappings()}
            conflicts = await self._conflict(connection, [by_id[i] for i in applied if by_id[i].finding.conflicts])
            for identifier in conflicts:
                applied[identifier]["state"] = "conflict"
            news = [
                row
                for identifier, row in applied.items()
                if identifier in conflicts or by_id[identifier].finding.is_news_of(by_id[identifier].check)
            ]
            if news:
                await connection.execute(text(sql.tell), {"changed": dumps(news)})
        return {identifier: row["state"] for identifier, row in applied.items()}

    async def _conflict(self, connection: AsyncConnection, checked: Sequence[Checked]) -> list[DeliveryId]:
        """End what cannot be delivered any more, and log why where operators look."""
        rows = {
            c.check.delivery: {
                "id": c.check.delivery,
                "version": c.registration,
                "status": c.status,
                "duration_ms": c.duration_ms,
            }
            for c in checked
        }
        if not rows:
            return []
        ended = await connection.execute(text(self._statements.conflict), {"conflicts": dumps(rows.values())})
        identifiers = [DeliveryId(identifier) for identifier in ended.scalars()]
        await connection.execute(text(self._statements.log), {"conflicts": dumps(rows[i] for i in identifiers)})
        return identifiers

    async def confirmation(self, seq: int) -> Confirmation | None:
        """The submission of this number with its run and what reading back says; None: there is no such number."""
        async with self._db.read() as connection:
            found = await connection.execute(text(statements.CONFIRMATION), {"seq": seq})
            row = found.mappings().one_or_none()
            if row is None:
                return None
            references = await connection.execute(text(statements.REFERENCES), {"provenance": row["provenance"]})
            return Confirmation(
                submission=row["submission"],
                agent=row["agent"],
                task=row["task"],
                run=row["run"],
                references=tuple(Reference(kind=r.kind, id=r.id) for r in references),
                evidence=row["evidence"],
                evidence_at=row["evidence_at"],
                resolution=row["resolution"],
            )


class _Statements:
    """The statements of one dialect, put together once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        postgresql = db.dialect == "postgresql"
        # Who settles many at once locks them in an order of its own: nobody here waits for a row.
        lock = "FOR UPDATE OF d SKIP LOCKED" if postgresql else ""
        bounds = ("LEAST", "GREATEST") if postgresql else ("min", "max")
        conflicts = recordset(db.dialect, "conflicts", statements.CONFLICTS)
        chosen = recordset(db.dialect, "chosen", statements.CHOSEN)
        self.due_agents = self._fill(statements.DUE_AGENTS, slots=recordset(db.dialect, "slots", statements.SLOTS))
        self.candidates = self._fill(statements.CANDIDATES)
        self.untouched = self._fill(statements.UNTOUCHED, chosen=chosen, lock=lock)
        # An array is looked up by index; for a join PostgreSQL might scan the table.
        within = f"id = ANY (ARRAY({self.untouched}))" if postgresql else f"id IN ({self.untouched})"
        self.take = self._fill(statements.TAKE, untouched=within)
        self.taken = self._fill(statements.TAKEN, taken=recordset(db.dialect, "taken", {"id": "bigint"}))
        self.apply = self._fill(
            statements.APPLY,
            findings=recordset(db.dialect, "findings", statements.FINDINGS),
            least=bounds[0],
            greatest=bounds[1],
        )
        self.conflict = self._fill(statements.CONFLICT, conflicts=conflicts)
        self.log = self._fill(statements.LOG, conflicts=conflicts)
        self.tell = self._fill(outbox.TELL, changed=recordset(db.dialect, "changed", CHANGED))

    def _fill(self, statement: str, **parts: str) -> str:
        for name, part in {**parts, "now": self._db.now}.items():
            statement = statement.replace("{" + name + "}", part)
        return statement


def _fence(checked: Checked) -> Mapping[str, Any]:
    return {"id": checked.check.delivery, "check_due_at": checked.check.leased_until}


def _row(checked: Checked) -> Mapping[str, Any]:
    finding = checked.finding
    return {
        **_fence(checked),
        "evidence": finding.evidence,
        "seen": finding.seen,
        "resolved": finding.resolution is not None,
        "resolution": finding.resolution.text if finding.resolution else None,
        "hurries": finding.hurries,
        "counts": int(finding.counts),
        "wait_ms": checked.wait_ms,
        "news": finding.is_news_of(checked.check),
    }


def _check(row: RowMapping) -> Check:
    return Check(
        delivery=row["id"],
        leased_until=row["check_due_at"],
        checks=row["checks"],
        agent=row["agent"],
        tenant=row["tenant"],
        owner=row["owner"],
        pinned=row["pinned"],
        protocol=row["protocol"],
        ran_as=row["ran_as"],
        submission=row["submission"],
        task=row["task"],
        rating=row["rating"],
        comment=row["comment"],
        sha256=row["sha256"],
        state=row["state"],
        evidence=row["evidence"],
        resolution=row["resolution"],
    )
