"""Who can be spoken for at the demonstration's issuer, and which assertions it has seen."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import text

from relay.demo.assertions import LEEWAY_SECONDS, Asserted
from relay.storage.engine import Database

CLIENT_ID = "workbench"

RATING_SCOPES = frozenset({"provenance:write", "feedback:write", "feedback:read"})
_RUNNING = frozenset({"runs:write", "runs:read"})


@dataclass(frozen=True, slots=True)
class Account:
    """A person or the machine client: its subject, and the scopes that a token of it may have."""

    subject: str
    scopes: frozenset[str]

    @property
    def name(self) -> str:
        """How the person is called on a page."""
        return self.subject.capitalize()


PEOPLE: Mapping[str, Account] = {
    account.subject: account
    for account in (
        Account("alice", RATING_SCOPES | _RUNNING),
        Account("bob", RATING_SCOPES | _RUNNING),
        Account("operator", frozenset({"feedback:read", "operator:read", "operator:write", "registry:admin"})),
    )
}
MACHINE = Account(CLIENT_ID, RATING_SCOPES | _RUNNING)

_TABLES = (
    "CREATE TABLE IF NOT EXISTS revoked (subject TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS used (issuer TEXT, jti TEXT, expires_at BIGINT NOT NULL, PRIMARY KEY (issuer, jti))",
)


class Accounts:
    """The people whose access was revoked, and the ids of assertions that were used; both outlive a restart."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def prepare(self) -> None:
        async with self._db.write() as connection:
            for table in _TABLES:
                await connection.execute(text(table))

    async def is_active(self, subject: str) -> bool:
        """Whether there is such a person, and their access was not revoked."""
        if subject not in PEOPLE:
            return False
        async with self._db.read() as connection:
            revoked = await connection.scalar(text("SELECT 1 FROM revoked WHERE subject = :subject"), _of(subject))
        return revoked is None

    async def revoke(self, subject: str) -> None:
        """Give out no more tokens for this person; those that are out live until they expire."""
        async with self._db.write() as connection:
            await connection.execute(text("INSERT INTO revoked VALUES (:subject) ON CONFLICT DO NOTHING"), _of(subject))

    async def restore(self, subject: str) -> None:
        async with self._db.write() as connection:
            await connection.execute(text("DELETE FROM revoked WHERE subject = :subject"), _of(subject))

    async def use_once(self, asserted: Asserted, *, now: float) -> bool:
        """Whether this is the first use of an assertion. It is forgotten once nobody would accept it any more."""
        used = {"issuer": asserted.issuer, "jti": asserted.jti, "expires_at": asserted.expires_at}
        async with self._db.write() as connection:
            await connection.execute(
                text("DELETE FROM used WHERE expires_at < :past"), {"past": int(now) - 2 * LEEWAY_SECONDS}
            )
            inserted = await connection.execute(
                text("INSERT INTO used VALUES (:issuer, :jti, :expires_at) ON CONFLICT DO NOTHING"), used
            )
        return inserted.rowcount == 1


def _of(subject: str) -> dict[str, str]:
    return {"subject": subject}
