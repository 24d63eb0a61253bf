"""The outbox without a network: a registry with agents, an owner, and submissions placed as accepting places them."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import text

from registry.model import AgentId, StaticBearer, Version
from registry.registrations import Declaration, Registrations
from relay.delivery.model import Claimed, Outcome, Settled, Settlement
from relay.delivery.schedule import Schedule
from relay.delivery.settling import Settlements
from relay.delivery.store import BreakerLimits, Deliveries
from relay.operators.agents import Agents
from relay.storage.engine import Database

LEASE = 30.0
SCHEDULE = Schedule((0, 5, 30), jitter=0)
BREAKER = BreakerLimits(failure_ratio=0.5, minimum=4, window_seconds=60, open_seconds=30)
TENANT = "acme"

PLACE = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, created_at)
VALUES (1, :tenant, 'workbench', :id, :agent, :id, :ran_as, :version, 'roblox-v1', 'up', NULL, :payload, 'ab', {now})
RETURNING seq
"""
PLACE_DELIVERY = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
VALUES ('feedback', :seq, :agent, :tenant, 1, false, :state, {now}, {now} + :due_ms, 0, 0, 0, {now}, 'unchecked', 1)
RETURNING id
"""


@dataclass
class Outbox:
    """Deliveries with everything around them that is not a network."""

    db: Database
    deliveries: Deliveries
    registry: Registrations
    settlements: Settlements
    agents: Agents
    placed: int = field(default=0)

    async def place(
        self,
        agent: str = "literature",
        *,
        due_ms: int = 0,
        tenant: str = TENANT,
        state: str = "pending",
        version: int = 1,
        ran_as: str = "client",
    ) -> int:
        """A submission with its delivery; the delivery's number."""
        self.placed += 1
        values: dict[str, Any] = {
            "id": f"submission-{self.placed}",
            "agent": agent,
            "tenant": tenant,
            "version": version,
            "ran_as": ran_as,
            "payload": json.dumps({"id": self.placed}).encode(),
        }
        async with self.db.write() as connection:
            seq = (await connection.execute(self.db.sql(PLACE), values)).scalar_one()
            row = {"seq": seq, "agent": agent, "tenant": tenant, "state": state, "due_ms": due_ms}
            return int((await connection.execute(self.db.sql(PLACE_DELIVERY), row)).scalar_one())

    async def claim(self, **slots: int) -> list[Claimed]:
        wanted = {AgentId(agent): free for agent, free in (slots or {"literature": 100}).items()}
        return await self.deliveries.claim_due(wanted, self.registry.snapshot, 0.0)

    async def settle(self, claimed: Claimed, end: str, **details: Any) -> Settled:
        outcome = Outcome(end=end, phase=details.pop("phase", "body"), **details)  # type: ignore[arg-type]
        settled = await self.settlements._write([Settlement(claimed.claim, outcome)])
        if settled[0] is None:
            await self.registry.reload()
            settled = await self.settlements._write([Settlement(claimed.claim, outcome)])
        assert settled[0] is not None
        return settled[0]

    async def row(self, delivery: int) -> dict[str, Any]:
        return (await self.rows("SELECT * FROM deliveries WHERE id = :id", id=delivery))[0]

    async def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        async with self.db.read() as connection:
            return [dict(r) for r in (await connection.execute(self.db.sql(statement), parameters)).mappings()]

    async def change(self, statement: str, **parameters: Any) -> None:
        async with self.db.write() as connection:
            await connection.execute(self.db.sql(statement), parameters)

    async def expire(self, delivery: int) -> None:
        """Let a lease run out now."""
        await self.change("UPDATE deliveries SET lease_until = {now} - 1 WHERE id = :id", id=delivery)

    async def make_due(self) -> None:
        """Let time pass until everything is due."""
        await self.change("UPDATE deliveries SET due_at = {now}, not_before = 0")


def declaration(agent: str, origin: str | None = None, protocol: str | None = "roblox-v1") -> Declaration:
    return Declaration(
        agent=AgentId(agent),
        name=agent.title(),
        origin=origin or f"https://{agent}.example.org",
        protocol=protocol,
        credentials=(StaticBearer(issuer="https://login.example.org", client_id="workbench", token_file="bearer"),),
    )


@pytest.fixture
async def outbox(database: Database) -> Outbox:
    async with database.write() as connection:
        await connection.execute(
            text(
                "INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)"
                " VALUES (1, 'ok_1', 'human', 'https://login.example.org', 'workbench', :hmac, 'p', 1)"
            ),
            {"hmac": b"h"},
        )
    agents = Agents(database)
    await agents.seed([declaration("literature"), declaration("chemistry")])
    registry = Registrations(database.read)
    await registry.reload()
    deliveries = Deliveries(database, LEASE, BREAKER)
    return Outbox(
        database, deliveries, registry, Settlements(deliveries, registry, SCHEDULE, patience_seconds=5), agents
    )


V1 = Version(1)
