"""The outbox in the database: claims, settles, expired leases."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId, Snapshot
from relay.delivery import statements
from relay.delivery.model import Cause, Claim, Claimed, DeliveryId, Outcome, Settlement, State, claim_token
from relay.identity.model import OwnerId
from relay.storage.engine import Database
from relay.storage.express import for_psycopg
from relay.storage.records import dumps, recordset

OWNER_GAP_MS = 5_000
"""The least time between two attempts at one delivery that its owner asks for."""

CHANGED: Mapping[str, Any] = {
    "id": "bigint",
    "submission": "bigint",
    "tenant": "text",
    "owner": "bigint",
    "state": "text",
}


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """When an agent's breaker opens, in the units of the configuration."""

    failure_ratio: float
    minimum: int
    window_seconds: float
    open_seconds: float

    def parameters(self) -> dict[str, Any]:
        return {
            "ratio": self.failure_ratio,
            "minimum": self.minimum,
            "window_ms": round(self.window_seconds * 1000),
            "open_ms": round(self.open_seconds * 1000),
        }


@dataclass(frozen=True, slots=True)
class SettledRow:
    """``accepted`` is false where the registry has changed since the outcome was judged: judge again."""

    accepted: bool
    state: State | None


class Deliveries:
    """The deliveries of every submission."""

    def __init__(self, db: Database, lease_seconds: float, breaker: BreakerLimits) -> None:
        self._db = db
        self._lease_ms = round(lease_seconds * 1000)
        self._breaker = breaker
        self._statements = _Statements(db)
        # A line each: settling must not wait for a claim.
        on_postgresql = db.dialect == "postgresql"
        self._claims = db.line() if on_postgresql else None
        self._settles = db.line() if on_postgresql else None

    async def claim_due(self, slots: Mapping[AgentId, int], snapshot: Snapshot, claimed_at: float) -> list[Claimed]:
        """Claim what is due, at most ``slots`` per agent, the longest due first."""
        rows = [
            {"agent": agent, "free": free, "revision": snapshot[agent].revision}
            for agent, free in slots.items()
            if free > 0 and snapshot[agent].sendable
        ]
        if not rows:
            return []
        parameters = {"slots": dumps(rows), "token": claim_token(), "lease_ms": self._lease_ms}
        if self._claims is not None:
            taken = await self._claims.rows(self._statements.claim, parameters)
            return [_claimed(row, claimed_at) for row in taken]
        return await self._claim_sqlite(parameters, claimed_at)

    async def _claim_sqlite(self, parameters: dict[str, Any], claimed_at: float) -> list[Claimed]:
        sql = self._statements
        async with self._db.read() as connection:
            # Looking first keeps an idle worker from taking the write lock at every poll.
            if not (await connection.execute(text(sql.any_due), {"slots": parameters["slots"]})).scalar():
                return []

        def claim(connection: sqlite3.Connection) -> list[sqlite3.Row]:
            probes = connection.execute(sql.probe, parameters).fetchall()
            able = connection.execute(sql.able, {**parameters, "probes": dumps(map(dict, probes))}).fetchall()
            due: list[int] = []
            for agent, free in able:
                due += [row[0] for row in connection.execute(sql.due, {"agent": agent, "free": free})]
            if not due:
                return []
            connection.execute(sql.take, {**parameters, "due": str(due)}).fetchall()
            return connection.execute(sql.claimed_by, {"token": parameters["token"]}).fetchall()

        return [_claimed(row, claimed_at) for row in await self._db.transact(claim)]

    async def claim_one(
        self, delivery: DeliveryId, cause: Cause, revision: int, claimed_at: float, *, present: bool = False
    ) -> Claimed | None:
        """Claim one waiting delivery because its owner asks; ``present`` says that their live token is at hand.

        None: a floor, a breaker, a hold, or another claim stands in the way, or the last such attempt was just now.
        """
        parameters = {
            "id": delivery,
            "cause": cause,
            "revision": revision,
            "token": claim_token(),
            "lease_ms": self._lease_ms,
            "owner_gap_ms": OWNER_GAP_MS,
            "present": present,
        }
        async with self._db.write() as connection:
            if not (await connection.execute(text(self._statements.take_one), parameters)).all():
                return None
            claimed = await self._read_claimed(connection, parameters["token"], claimed_at)
        return claimed[0]

    async def _read_claimed(self, connection: AsyncConnection, token: object, claimed_at: float) -> list[Claimed]:
        rows = await connection.execute(text(self._statements.claimed_by), {"token": token})
        return [_claimed(row, claimed_at) for row in rows.mappings()]

    async def waiting_for(self, owner: OwnerId) -> list[tuple[DeliveryId, AgentId]]:
        """What may go out now that this owner is here."""
        async with self._db.read() as connection:
            rows = await connection.execute(text(self._statements.waiting_for), {"owner": owner})
            return [(DeliveryId(row.id), AgentId(row.agent)) for row in rows]

    async def reopen(self, delivery: DeliveryId, revision: int, *, held: bool) -> bool:
        """Start a new window for a rejected or exhausted delivery. False: it is in another state, or the registry has
        changed since ``revision``.
        """
        async with self._db.write() as connection:
            if self._db.dialect == "postgresql":
                # So that the statement sees whether the submission was erased a moment ago.
                await connection.execute(text("SELECT 1 FROM deliveries WHERE id = :id FOR UPDATE"), {"id": delivery})
            found = await connection.execute(
                text(self._statements.reopen), {"id": delivery, "held": held, "revision": revision}
            )
            rows = [dict(row) for row in found.mappings()]
            if rows:
                await connection.execute(text(self._statements.tell), {"changed": dumps(rows)})
        return bool(rows)

    async def expired(self) -> list[Settlement]:
        """Claims whose lease has run out, as settlements that say so."""
        async with self._db.read() as connection:
            rows = (await connection.execute(text(self._statements.expired))).mappings().all()
        return [
            Settlement(
                _claim(row),
                Outcome(
                    end="lost",
                    reason="lease_expired",
                    phase="unknown",
                    ambiguous=True,
                    duration_ms=row["age_ms"],
                ),
            )
            for row in rows
        ]

    async def settle(self, rows: Sequence[Mapping[str, Any]]) -> list[SettledRow]:
        """Write outcomes (`relay.delivery.statements.OUTCOMES`), no delivery twice: attempt, state, event and breaker
        in one transaction.
        """
        parameters = {"outcomes": dumps(rows), **self._breaker.parameters()}
        if self._settles is not None:
            found = await self._settles.rows(self._statements.settle, parameters)
            return [SettledRow(row["accepted"], row["state"]) for row in found]
        return await self._db.transact(lambda connection: self._settle_sqlite(connection, rows, parameters))

    def _settle_sqlite(
        self, connection: sqlite3.Connection, rows: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]
    ) -> list[SettledRow]:
        sql = self._statements
        found = connection.execute(sql.fresh, {"outcomes": parameters["outcomes"]}).fetchall()
        fresh = {(row["id"], row["revision"]) for row in found}
        accepted = [r for r in rows if r["outcome"] == "saved" or (r["agent"], r["revision"]) in fresh]
        both = {"accepted": dumps(accepted)}
        changed = [dict(row) for row in connection.execute(sql.change, both).fetchall()]
        both["changed"] = dumps(changed)
        connection.execute(sql.log, both)
        connection.execute(sql.tell, {"changed": both["changed"]})
        connection.execute(sql.breakers, {"accepted": both["accepted"], **self._breaker.parameters()})
        states = {row["id"]: row["state"] for row in changed}
        kept = {r["n"] for r in accepted}
        return [SettledRow(r["n"] in kept, states.get(r["delivery"])) for r in rows]


class _Row(Protocol):
    """A row of either driver."""

    def __getitem__(self, name: str, /) -> Any: ...  # noqa: ANN401 - a column of any type


class _Statements:
    """The statements of one dialect, put together once."""

    def __init__(self, db: Database) -> None:
        self._db = db
        greatest = "GREATEST" if db.dialect == "postgresql" else "max"
        share = "FOR SHARE OF a" if db.dialect == "postgresql" else ""
        self.reopen = self._fill(statements.REOPEN, share=share, greatest=greatest)
        least = "LEAST" if db.dialect == "postgresql" else "min"
        self.expired = self._fill(statements.EXPIRED, least=least)
        self.waiting_for = self._fill(statements.WAITING_FOR)
        self.take_one = self._fill(statements.TAKE_ONE)
        claimed = "(SELECT * FROM deliveries WHERE state = 'sending' AND claim_token = :token)"
        self.claimed_by = self._fill(statements.CLAIMED, taken=claimed)
        slots = recordset(db.dialect, "slots", statements.SLOTS)
        breakers = self._fill(statements.BREAKERS, restart=statements.RESTART, greatest=greatest)
        self.tell = self._fill(statements.TELL, changed=recordset(db.dialect, "changed", CHANGED))
        if db.dialect == "postgresql":
            self.claim = for_psycopg(self._claim(slots))
            self.settle = for_psycopg(self._settle(greatest, breakers))
            return
        self.any_due = self._fill(
            f"SELECT EXISTS (SELECT 1 FROM {slots} AS s JOIN deliveries d ON d.agent = s.agent"
            " WHERE d.state = 'pending' AND d.due_at <= {now})"
        )
        self.probe = self._fill(statements.PROBE, slots=slots)
        probes = recordset(db.dialect, "probes", {"agent": "text"})
        self.able = self._fill(statements.ABLE, slots=slots, probes=probes)
        self.due = self._fill(statements.DUE, agent=":agent", free=":free")
        self.take = self._fill(statements.TAKE, due="id IN (SELECT value FROM json_each(:due))")
        self.fresh = self._fill(
            statements.FRESH, outcomes=recordset(db.dialect, "outcomes", {"agent": "text", "revision": "bigint"})
        )
        accepted = recordset(db.dialect, "accepted", statements.OUTCOMES)
        changed = recordset(db.dialect, "changed", CHANGED)
        self.change = self._fill(statements.CHANGE, accepted=accepted, greatest=greatest)
        self.log = self._fill(statements.LOG, accepted=accepted, changed=changed)
        self.breakers = breakers.replace("{accepted}", accepted)

    def _fill(self, statement: str, **parts: str) -> str:
        for name, part in {**parts, "now": self._db.now}.items():
            statement = statement.replace("{" + name + "}", part)
        return statement

    def _claim(self, slots: str) -> str:
        due = self._fill(statements.DUE, agent="able.agent", free="able.free")
        # An array is looked up by index. How many rows `due` has PostgreSQL cannot know, and it would scan for a join.
        return f"""WITH
            probes AS ({self._fill(statements.PROBE, slots=slots)}),
            able AS MATERIALIZED ({self._fill(statements.ABLE, slots=slots, probes="probes")}),
            due AS MATERIALIZED (
                SELECT x.id FROM able CROSS JOIN LATERAL ({due} FOR UPDATE OF d SKIP LOCKED) AS x),
            taken AS ({self._fill(statements.TAKE, due="id = ANY (ARRAY(SELECT id FROM due))")})
            {self._fill(statements.CLAIMED, taken="taken")}"""

    def _settle(self, greatest: str, breakers: str) -> str:
        outcomes = recordset(self._db.dialect, "outcomes", statements.OUTCOMES)
        return f"""WITH
            outcomes AS MATERIALIZED (SELECT * FROM {outcomes} AS r),
            fresh AS MATERIALIZED ({self._fill(statements.FRESH, outcomes="outcomes")} FOR SHARE OF a),
            accepted AS MATERIALIZED (
                SELECT o.* FROM outcomes o WHERE o.outcome = 'saved'
                    OR (o.agent, o.revision) IN (SELECT id, revision FROM fresh)),
            changed AS ({self._fill(statements.CHANGE, accepted="accepted", greatest=greatest)}),
            logged AS ({self._fill(statements.LOG, accepted="accepted", changed="changed")}),
            told AS ({self._fill(statements.TELL, changed="changed")}),
            weighed AS ({breakers.replace("{accepted}", "accepted")})
            SELECT a.n IS NOT NULL AS accepted, c.state FROM outcomes o
            LEFT JOIN accepted a ON a.n = o.n LEFT JOIN changed c ON c.id = o.delivery ORDER BY o.n"""


def _claim(row: _Row) -> Claim:
    return Claim(
        delivery=row["id"],
        token=row["token"],
        number=row["number"],
        cause=row["cause"],
        position=row["position"],
        agent=row["agent"],
        tenant=row["tenant"],
        pinned=row["pinned"],
    )


def _claimed(row: _Row, claimed_at: float) -> Claimed:
    return Claimed(
        claim=_claim(row),
        window_ms=row["window_ms"],
        claimed_at=claimed_at,
        owner=row["owner"],
        submission=row["submission"],
        task=row["task"],
        rating=row["rating"],
        comment=row["comment"],
        payload=bytes(row["payload"]),
        sha256=row["sha256"],
        ran_as=row["ran_as"],
        protocol=row["protocol"],
        trace_context=row["trace_context"],
    )
