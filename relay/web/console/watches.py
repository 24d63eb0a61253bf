"""Noticing that what a page shows has changed, whichever process changed it: by asking the database, cheaply, again."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from sqlalchemy import text

from relay.storage.engine import Database

EVERY_SECONDS: Final = 1.0
"""How long a change may go unnoticed."""

_LATE: Final = 1000
"""Numbers of events commit out of order: how far behind the newest one may still come."""

_SUBMISSION: Final = """
SELECT d.version, d.state, d.due_at, d.not_before, d.attempt_count, d.evidence, d.evidence_at, d.resolution,
    s.erased_at, b.paused_until, b.open_until
FROM submissions s JOIN deliveries d ON d.submission = s.seq JOIN owners o ON o.id = s.owner
LEFT JOIN agent_breakers b ON b.agent = s.agent
WHERE s.tenant = :tenant AND o.owner_key = :owner AND s.id = :id
"""
_JOB: Final = "SELECT state, examined, results, updated_at FROM jobs WHERE tenant = :tenant AND id = :id"
_JOBS: Final = """
SELECT count(*), max(seq), max(updated_at)
FROM (SELECT seq, updated_at FROM jobs WHERE tenant = :tenant ORDER BY seq DESC LIMIT 100) AS newest
"""
_AGENTS: Final = """
SELECT (SELECT sum(revision) FROM agents) AS decided,
    (SELECT max(open_until) FROM agent_breakers) AS opened,
    (SELECT count(open_until) FROM agent_breakers) AS open
"""
# Only what is new is read: by the key, from the newest number that was there before.
_EVENTS: Final = """
SELECT (SELECT max(seq) FROM events WHERE seq > :seen AND tenant = :tenant) AS own,
    (SELECT max(seq) FROM events) AS newest
"""


class Watch:
    """One page's look at a row. What it sees first is how things stand."""

    def __init__(self, db: Database, statement: str, parameters: Mapping[str, Any]) -> None:
        self._db = db
        self._statement = text(statement)
        self._parameters = parameters
        self._seen: object = None

    async def changed(self) -> bool:
        """Whether the row is another than at the look before."""
        async with self._db.read() as connection:
            row = (await connection.execute(self._statement, self._parameters)).first()
        before, self._seen = self._seen, None if row is None else tuple(row)
        return self._seen != before


class TenantWatch:
    """A look at everything of one tenant, and at how the agents stand. Says nothing of what other tenants do."""

    def __init__(self, db: Database, tenant: str) -> None:
        self._db = db
        self._tenant = tenant
        self._agents = Watch(db, _AGENTS, {})
        self._seen = 2**62
        self._own = 0

    async def changed(self) -> bool:
        """Whether something happened to a submission of the tenant, or to an agent."""
        parameters = {"seen": self._seen, "tenant": self._tenant}
        async with self._db.read() as connection:
            row = (await connection.execute(text(_EVENTS), parameters)).one()
        self._seen = max(0, (row.newest or 0) - _LATE)
        own = row.own or 0
        news, self._own = own > self._own, max(own, self._own)
        return await self._agents.changed() or news


class Watches:
    """Makes the watches of pages."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def submission(self, tenant: str, owner: str, submission: str) -> Watch:
        return Watch(self._db, _SUBMISSION, {"tenant": tenant, "owner": owner, "id": submission})

    def job(self, tenant: str, job: str) -> Watch:
        return Watch(self._db, _JOB, {"tenant": tenant, "id": job})

    def jobs(self, tenant: str) -> Watch:
        return Watch(self._db, _JOBS, {"tenant": tenant})

    def tenant(self, tenant: str) -> TenantWatch:
        return TenantWatch(self._db, tenant)


WATCHES: Final = web.AppKey("console_watches", Watches)
