"""The table of sessions."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import RowMapping, delete, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.storage.engine import Database
from relay.storage.tables import console_sessions as table
from relay.web.console.sessions.model import Lifetime, Session

_SESSION: Final = select(
    table.c.id_hash,
    table.c.operator,
    table.c.tenant,
    table.c.sealed,
    table.c.seal_kid,
    table.c.token_expires_at,
    table.c.created_at,
    table.c.seen_at,
    table.c.ends_at,
)


class SessionRows:
    """Sessions as rows. What belongs into one transaction takes its connection."""

    def __init__(self, db: Database) -> None:
        self.db = db

    async def find(self, id_hash: str) -> Session | None:
        async with self.db.read() as connection:
            row = (await connection.execute(_SESSION.where(table.c.id_hash == id_hash))).mappings().first()
        return None if row is None else _session(row)

    async def of_operator(self, operator: str) -> Sequence[Session]:
        """All their sessions, the newest first."""
        newest_first = _SESSION.where(table.c.operator == operator).order_by(table.c.created_at.desc(), table.c.id_hash)
        async with self.db.read() as connection:
            return [_session(row) for row in (await connection.execute(newest_first)).mappings()]

    async def add(self, connection: AsyncConnection, session: Session) -> None:
        await connection.execute(insert(table).values(**_values(session)))

    async def touch(self, id_hash: str, now: int) -> None:
        """Somebody was there at this moment."""
        async with self.db.statement() as connection:
            await connection.execute(update(table).where(table.c.id_hash == id_hash).values(seen_at=now))

    async def claim_refresh(self, session: Session, *, now: int, until: int) -> bool:
        """Whether this process is the one to get new tokens, until then. Nobody is, once they are there."""
        free = or_(table.c.refreshing_until.is_(None), table.c.refreshing_until <= now)
        same = (table.c.id_hash == session.id_hash) & (table.c.token_expires_at == session.token_expires_at)
        async with self.db.statement() as connection:
            claimed = await connection.execute(update(table).where(same, free).values(refreshing_until=until))
        return claimed.rowcount == 1

    async def put_tokens(self, id_hash: str, *, sealed: bytes, seal_kid: str, token_expires_at: int) -> None:
        """New tokens, and the claim is given back."""
        values = {"sealed": sealed, "seal_kid": seal_kid, "token_expires_at": token_expires_at}
        async with self.db.statement() as connection:
            await connection.execute(
                update(table).where(table.c.id_hash == id_hash).values(**values, refreshing_until=None)
            )

    async def release(self, id_hash: str) -> None:
        """The claim is given back; the tokens are the same."""
        async with self.db.statement() as connection:
            await connection.execute(update(table).where(table.c.id_hash == id_hash).values(refreshing_until=None))

    async def remove(self, connection: AsyncConnection, id_hash: str) -> bool:
        """End one session; whether there was one."""
        return (await connection.execute(delete(table).where(table.c.id_hash == id_hash))).rowcount == 1

    async def remove_all(self, connection: AsyncConnection, operator: str) -> int:
        """End all sessions of an operator; how many there were."""
        return (await connection.execute(delete(table).where(table.c.operator == operator))).rowcount

    async def prune(self, lifetime: Lifetime, now: int) -> int:
        """Throw away what is over; how many that were."""
        over = or_(table.c.ends_at <= now, table.c.seen_at <= now - lifetime.idle)
        async with self.db.statement() as connection:
            return (await connection.execute(delete(table).where(over))).rowcount


def _session(row: RowMapping) -> Session:
    return Session(**{**row, "sealed": bytes(row["sealed"])})


def _values(session: Session) -> dict[str, Any]:
    return {name: getattr(session, name) for name in Session.__slots__}
