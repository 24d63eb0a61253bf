"""Submissions of several owners and tenants, in any state, without a network."""

from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import text

from relay.operators.submissions.actions import Actions
from relay.operators.submissions.store import Submissions
from relay.storage.engine import Database
from tests.delivery.conftest import PLACE_DELIVERY, TENANT, Outbox, outbox

__all__ = ["outbox"]

OWNERS = ("ok_1", "ok_2", "ok_3")

PLACE = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, created_at)
VALUES (:owner, :tenant, :client, :id, :agent, :id, 'client', 1, 'roblox-v1', :rating, :comment, :payload, 'ab',
    :created_at)
RETURNING seq
"""


@dataclass
class Desk:
    """An operator's desk, and the outbox behind it."""

    outbox: Outbox
    submissions: Submissions
    actions: Actions
    told: list[None]

    @property
    def db(self) -> Database:
        return self.outbox.db

    async def place(self, number: int, **said: Any) -> int:
        """A submission with the id ``s-<number>``; its delivery's number."""
        submission = {
            "owner": 1,
            "tenant": TENANT,
            "client": "workbench",
            "agent": "literature",
            "rating": "up",
            "comment": None,
            "created_at": 1_000 + number,
            **{name: value for name, value in said.items() if name in SUBMISSION},
            "id": f"s-{number}",
            "payload": b"{}",
        }
        changes = {name: value for name, value in said.items() if name not in SUBMISSION}
        async with self.db.write() as connection:
            seq = (await connection.execute(text(PLACE), submission)).scalar_one()
            row = {**{n: submission[n] for n in ("agent", "tenant")}, "seq": seq, "state": "pending", "due_ms": 60_000}
            placed = await connection.execute(self.db.sql(PLACE_DELIVERY), row)
            delivery = int(placed.scalar_one())
            values = {"owner": submission["owner"], **changes}
            assignments = ", ".join(f"{name} = :{name}" for name in values)
            await connection.execute(
                text(f"UPDATE deliveries SET {assignments} WHERE id = :id"), {**values, "id": delivery}
            )
        return delivery

    async def erase(self, delivery: int) -> None:
        """As retention does it."""
        await self.outbox.change(
            "UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL,"
            " trace_context = NULL, erased_at = {now}"
            " WHERE seq = (SELECT submission FROM deliveries WHERE id = :id)",
            id=delivery,
        )

    async def audited(self) -> list[dict[str, Any]]:
        return await self.outbox.rows(
            "SELECT tenant, actor, action, target, before, after, why FROM audit_log"
            " WHERE action LIKE 'submission.%' OR action LIKE 'job.%' ORDER BY seq"
        )

    async def events(self) -> list[tuple[int, str]]:
        rows = await self.outbox.rows("SELECT ref, state FROM events ORDER BY seq")
        return [(row["ref"], row["state"]) for row in rows]


SUBMISSION = {"owner", "tenant", "client", "agent", "rating", "comment", "created_at"}


@pytest.fixture
async def desk(outbox: Outbox) -> Desk:
    for number, key in enumerate(OWNERS[1:], start=2):
        async with outbox.db.write() as connection:
            await connection.execute(
                text(
                    "INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)"
                    " VALUES (:id, :key, 'human', 'https://login.example.org', 'workbench', :hmac, 'p', 1)"
                ),
                {"id": number, "key": key, "hmac": key.encode()},
            )
    told: list[None] = []
    return Desk(outbox, Submissions(outbox.db), Actions(outbox.db, lambda: told.append(None)), told)
