"""Submissions of any age and state, in a database of each engine."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from relay.retention.model import DAY_MS, Policy
from relay.retention.sweeping import Sweep
from tests.delivery.conftest import Outbox, outbox

__all__ = ["outbox"]

PLACE = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, created_at)
VALUES (:owner, :tenant, 'workbench', :id, :agent, :id, 'client', 1, 'roblox-v1', 'down', 'what alice wrote', :payload,
    'ab', {now} - :age_ms) RETURNING seq
"""
PLACE_DELIVERY = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, resolution, abandoned_why, check_due_at, version)
VALUES ('feedback', :seq, :agent, :tenant, :owner, false, :state, {now}, {now}, 0, 1, 1, {now}, 'unchecked',
    'fixed what alice wrote', 'alice wrote too much', {now}, 1) RETURNING id
"""
PLACE_ATTEMPT = """
INSERT INTO attempts (delivery, number, cause, registration_version, started_at, outcome, error_kind, status, ambiguous,
    excerpt)
VALUES (:id, 1, 'accept', 1, {now}, :outcome, 'http_500', 500, :ambiguous, 'alice wrote')
"""
PLACE_OWNER = """
INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, sealed_subject, seal_kid, created_at)
VALUES (:owner, :key, 'human', 'https://login.example.org', 'workbench', :hmac, 'p', :hmac, 'k', 1)
"""


@dataclass
class Kept:
    """What is kept, and how to look at it."""

    outbox: Outbox
    placed: int = 0

    async def place(
        self,
        state: str = "saved",
        *,
        days_old: float = 100,
        tenant: str = "acme",
        agent: str = "literature",
        owner: int = 1,
        outcome: str = "saved",
        ambiguous: bool = False,
    ) -> int:
        """A submission with its delivery and an attempt; its number."""
        self.placed += 1
        values: dict[str, Any] = {
            "owner": owner,
            "tenant": tenant,
            "agent": agent,
            "id": f"submission-{self.placed}",
            "payload": json.dumps({"comment": "what alice wrote"}).encode(),
            "age_ms": round(days_old * DAY_MS),
        }
        db = self.outbox.db
        async with db.write() as connection:
            seq = int((await connection.execute(db.sql(PLACE), values)).scalar_one())
            row = {"seq": seq, "agent": agent, "tenant": tenant, "owner": owner, "state": state}
            delivery = (await connection.execute(db.sql(PLACE_DELIVERY), row)).scalar_one()
            attempt = {"id": delivery, "outcome": outcome, "ambiguous": ambiguous}
            await connection.execute(db.sql(PLACE_ATTEMPT), attempt)
        return seq

    async def place_owner(self, owner: int) -> None:
        """One more owner beside the first, with a sealed subject."""
        await self.outbox.change(PLACE_OWNER, owner=owner, key=f"ok_{owner}", hmac=f"h{owner}".encode())

    async def erased(self) -> set[int]:
        return {row["seq"] for row in await self.outbox.rows("SELECT seq FROM submissions WHERE erased_at IS NOT NULL")}

    async def everything(self) -> dict[str, list[dict[str, Any]]]:
        """All rows that an erasure may touch."""
        keys = {
            "submissions": "seq",
            "deliveries": "id",
            "attempts": "id",
            "events": "seq",
            "audit_log": "seq",
            "owners": "id",
            "provenance_evidence": "id",
        }
        return {table: await self.outbox.rows(f"SELECT * FROM {table} ORDER BY {key}") for table, key in keys.items()}

    def sweep(self, days: int = 30, *, batch: int = 200, **tenants: int) -> Sweep:
        return Sweep(self.outbox.db, Policy(days, tenants), by="retention", batch=batch)


@pytest.fixture
def kept(outbox: Outbox) -> Kept:
    return Kept(outbox)
