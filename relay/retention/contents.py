"""What a submission says, erased in place: the row stays as its own tombstone, so that a repeat finds it.

Gone are rating, comment, payload and its digest; the excerpts of the specialist's answers, which may quote them; the
specialist's resolution; and the reason of an operator who gave it up, who may have quoted as well. What stays is in
docs/why/tombstones.md.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Row, bindparam
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.delivery.model import FINAL
from relay.storage.engine import Database

BATCH: Final = 200

ON_REQUEST: Final = "erasure on request"
"""Why a delivery is given up whose owner is erased. The only reason that is kept: it quotes nobody."""

FINAL_STATES: Final = ", ".join(f"'{state}'" for state in sorted(FINAL))

QUIET: Final = """
(d.lease_until IS NULL OR d.lease_until <= {now}
    OR EXISTS (SELECT 1 FROM attempts a WHERE a.delivery = d.id AND a.number = d.attempt_count))
"""
"""Nothing is under way: no attempt begins or goes on past its lease, and one that ended before has been logged."""

COLUMNS: Final = "s.seq, s.tenant, s.owner, s.agent, s.created_at, d.id AS delivery, d.state"

_ERASE: Final = """
UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL, erased_at = {now}
WHERE seq IN :seqs AND erased_at IS NULL RETURNING seq
"""
_EXCERPTS: Final = "UPDATE attempts SET excerpt = NULL WHERE delivery IN :deliveries AND excerpt IS NOT NULL"
_DELIVERIES: Final = """
UPDATE deliveries SET resolution = NULL, abandoned_why = CASE WHEN abandoned_why = :on_request THEN abandoned_why END,
    check_due_at = NULL, claim_token = NULL, claim_cause = NULL, lease_until = NULL, version = version + 1
WHERE id IN :deliveries
"""
_TELL: Final = """
INSERT INTO events (tenant, owner, kind, ref, state, at)
SELECT d.tenant, d.owner, 'feedback', d.submission, d.state, {now} FROM deliveries d WHERE d.id IN :deliveries
"""


def locking(db: Database) -> str:
    """SQL after a SELECT of ``deliveries d``: each belongs to this transaction; what others have locked is passed over.

    So two sweeps share the work, and a retry at the same instant comes before or after. SQLite has one writer.
    """
    return "FOR UPDATE OF d SKIP LOCKED" if db.dialect == "postgresql" else ""


async def erase(db: Database, connection: AsyncConnection, rows: Sequence[Row[Any]]) -> list[Row[Any]]:
    """Erase these submissions (of `COLUMNS`, their deliveries locked and final), and tell their owners' pages.

    Those that were really erased: others may have been, by somebody else, after they were looked for.
    """
    if not rows:
        return []
    statement = db.sql(_ERASE).bindparams(bindparam("seqs", expanding=True))
    gone = set((await connection.execute(statement, {"seqs": [row.seq for row in rows]})).scalars())
    erased = [row for row in rows if row.seq in gone]
    await on_deliveries(db, connection, _EXCERPTS, erased)
    await on_deliveries(db, connection, _DELIVERIES, erased, on_request=ON_REQUEST)
    await tell(db, connection, erased)
    return erased


async def tell(db: Database, connection: AsyncConnection, rows: Sequence[Row[Any]]) -> None:
    """Write an event for each of these: it has changed, and is in the state in which it is now."""
    await on_deliveries(db, connection, _TELL, rows)


async def on_deliveries(
    db: Database, connection: AsyncConnection, statement: str, rows: Sequence[Row[Any]], **parameters: str
) -> None:
    """Run a statement on the ``:deliveries`` of these rows, if there are any."""
    if rows:
        expanding = db.sql(statement).bindparams(bindparam("deliveries", expanding=True))
        await connection.execute(expanding, {"deliveries": [row.delivery for row in rows], **parameters})
