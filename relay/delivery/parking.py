"""Where a delivery waits: pending, held for an operator, or waiting for its owner."""

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import Acting, Agent, Registration, needs_presence

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
-- What has been claimed or settled since it was read is left alone: saved never leaves saved.
WHERE deliveries.id = w.delivery AND deliveries.state = w.before AND w.before <> w.resting
RETURNING deliveries.submission, deliveries.tenant, deliveries.owner, deliveries.state
"""

WAITING_CLASSES = """
SELECT DISTINCT o.kind, o.issuer, o.client, o.sealed_subject IS NOT NULL AS sealed, s.ran_as
FROM deliveries d JOIN submissions s ON s.seq = d.submission JOIN owners o ON o.id = d.owner
WHERE d.agent = :agent AND d.state IN ('pending', 'sending', 'held', 'needs_owner')
"""

MARK_PRESENCE = """
UPDATE deliveries SET needs_presence = :needs
WHERE agent = :agent AND state IN ('pending', 'sending', 'held', 'needs_owner') AND needs_presence <> :needs
    AND EXISTS (SELECT 1 FROM submissions s JOIN owners o ON o.id = s.owner
        WHERE s.seq = deliveries.submission AND o.kind = :kind AND o.issuer = :issuer AND o.client = :client
            AND (o.sealed_subject IS NOT NULL) = :sealed AND s.ran_as = :ran_as)
"""

TELL = """
INSERT INTO events (tenant, owner, kind, ref, state, at) VALUES (:tenant, :owner, 'feedback', :ref, :state, :at)
"""

REPARK_AND_TELL = f"""
WITH moved AS ({REPARK}),
told AS (
    INSERT INTO events (tenant, owner, kind, ref, state, at)
    SELECT tenant, owner, 'feedback', submission, state, :at FROM moved)
SELECT state, count(*) AS total FROM moved GROUP BY state
"""


@dataclass(frozen=True, slots=True)
class Moved:
    """How many deliveries a decision parked, and how many it set free."""

    parked: int
    freed: int


async def repark(connection: AsyncConnection, agent: Agent, at: int) -> Moved:
    """Move an agent's waiting deliveries to where its registration and holds put them now.

    The caller has changed the agent's row in this transaction, which locks out settles that decided before.
    """
    if agent.approved is not None:
        await _mark_presence(connection, agent.approved)
    if connection.dialect.name == "postgresql":
        # In one statement: the agent's row is locked meanwhile, and accepting waits for it.
        rows = (await connection.execute(text(REPARK_AND_TELL), {"agent": agent.id, "at": at})).all()
        counts = {row.state: int(row.total) for row in rows}
    else:
        moved = (await connection.execute(text(REPARK), {"agent": agent.id, "at": at})).all()
        told = [{"tenant": r.tenant, "owner": r.owner, "ref": r.submission, "state": r.state, "at": at} for r in moved]
        if told:
            await connection.execute(text(TELL), told)
        counts = Counter(row.state for row in moved)
    freed = counts.get("pending", 0)
    return Moved(sum(counts.values()) - freed, freed)


async def _mark_presence(connection: AsyncConnection, approved: Registration) -> None:
    """Credentials may have changed: whether an owner has to be present is worked out again, once for each kind."""
    classes = (await connection.execute(text(WAITING_CLASSES), {"agent": approved.agent})).all()
    for row in classes:
        acting = Acting(row.kind, row.issuer, row.client, row.ran_as, subject_known=bool(row.sealed))
        parameters = {
            "agent": approved.agent,
            "needs": needs_presence(approved.credentials, acting),
            "kind": row.kind,
            "issuer": row.issuer,
            "client": row.client,
            "sealed": bool(row.sealed),
            "ran_as": row.ran_as,
        }
        await connection.execute(text(MARK_PRESENCE), parameters)
