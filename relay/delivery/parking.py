"""Where a delivery waits: pending, held for an operator, or waiting for its owner."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId

REPARK = """
UPDATE deliveries
SET state = w.resting, state_since = :at, version = deliveries.version + 1
FROM (
    SELECT d.id AS delivery, d.state AS before, CASE
        WHEN r.lineage IS NULL OR r.lineage <> pinned.lineage OR h.tenant IS NOT NULL THEN 'held'
        WHEN d.needs_presence THEN 'needs_owner'
        ELSE 'pending' END AS resting
    FROM deliveries d
    JOIN submissions s ON s.seq = d.submission
    JOIN agents a ON a.id = d.agent
    JOIN registrations pinned ON pinned.agent = d.agent AND pinned.version = s.registration_version
    LEFT JOIN registrations r ON r.agent = a.id AND r.version = a.approved_version
    LEFT JOIN agent_holds h ON h.agent = d.agent AND h.tenant = d.tenant
    WHERE d.agent = :agent AND d.state IN ('pending', 'held', 'needs_owner')
) AS w
WHERE deliveries.id = w.delivery AND deliveries.state <> w.resting
RETURNING deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

TELL = """
INSERT INTO events (tenant, owner, kind, ref, state, at) VALUES (:tenant, :owner, 'feedback', :ref, :state, :at)
"""


@dataclass(frozen=True, slots=True)
class Moved:
    """How many deliveries a decision parked, and how many it set free."""

    parked: int
    freed: int


async def repark(connection: AsyncConnection, agent: AgentId, at: int) -> Moved:
    """Move an agent's waiting deliveries to where its registration and holds put them now.

    The caller has changed the agent's row in this transaction, which locks out settles that decided before.
    """
    rows = (await connection.execute(text(REPARK), {"agent": agent, "at": at})).all()
    if rows:
        told = [{"tenant": r.tenant, "owner": r.owner, "ref": r.submission, "state": r.state, "at": at} for r in rows]
        await connection.execute(text(TELL), told)
    freed = sum(1 for row in rows if row.state == "pending")
    return Moved(len(rows) - freed, freed)
