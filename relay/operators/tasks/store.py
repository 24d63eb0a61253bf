"""Looking for odd tasks among a tenant's provenance."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import RowMapping, text

from relay.provenance.model import Role, Status
from relay.storage.engine import Database

_CONTESTED: Final = """
SELECT agent, task, min(seq) AS first FROM provenance WHERE tenant = :tenant {and_agent}
GROUP BY agent, task HAVING count(DISTINCT owner) > 1
"""
_CONTESTED_PAGE: Final = f"""
SELECT agent, task, first FROM ({_CONTESTED}) AS contested WHERE first > :after ORDER BY first LIMIT :most
"""
_CLAIMANTS: Final = """
SELECT p.seq, o.owner_key AS owner, o.client, p.recorded_by, p.role, p.status, p.created_at,
    (SELECT s.id FROM submissions s WHERE s.owner = p.owner AND s.agent = p.agent AND s.task = p.task) AS submission
FROM provenance p JOIN owners o ON o.id = p.owner
WHERE p.tenant = :tenant AND p.agent = :agent AND p.task = :task ORDER BY p.seq
"""
_RUNNING: Final = """
FROM provenance p JOIN owners o ON o.id = p.owner
WHERE p.tenant = :tenant AND p.status = 'running' AND p.created_at <= {now} - :longer_ms {and_agent}
"""
_RUNNING_PAGE: Final = f"""
SELECT p.seq, p.agent, p.task, o.owner_key AS owner, o.client, p.recorded_by, p.role, p.conversation, p.answer, p.run,
    p.created_at, {{now}} - p.created_at AS age_ms
{_RUNNING} AND p.seq > :after ORDER BY p.seq LIMIT :most
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """One owner under whom a task is recorded, who recorded it, and the rating that they gave it, by its UUID."""

    owner: str
    client: str
    recorded_by: str
    role: Role
    status: Status
    created_at: int
    submission: str | None


@dataclass(frozen=True, slots=True)
class Contested:
    """A task that stands under several owners. ``seq`` is the number of its first record."""

    seq: int
    agent: str
    task: str
    claimants: Sequence[Claimant]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A task that has not ended. Times in milliseconds."""

    seq: int
    agent: str
    task: str
    owner: str
    client: str
    recorded_by: str
    role: Role
    conversation: str
    answer: str
    run: str | None
    created_at: int
    age_ms: int


class OddTasks:
    """The tasks on record of a tenant that somebody should look at."""

    def __init__(self, db: Database, *, long_running_seconds: float) -> None:
        self._db = db
        self._longer_ms = round(long_running_seconds * 1000)

    async def contested(self, tenant: str, agent: str | None, *, after: int, most: int) -> list[Contested]:
        """Those that stand under more than one owner of the tenant, the oldest first."""
        sql = _CONTESTED_PAGE.replace("{and_agent}", "AND agent = :agent" if agent else "")
        parameters = {"tenant": tenant, "agent": agent, "after": after, "most": most}
        async with self._db.read() as connection:
            found = (await connection.execute(text(sql), parameters)).all()
            tasks = []
            for row in found:
                named = {"tenant": tenant, "agent": row.agent, "task": row.task}
                claimants = (await connection.execute(text(_CLAIMANTS), named)).mappings().all()
                tasks.append(Contested(row.first, row.agent, row.task, [_claimant(one) for one in claimants]))
            return tasks

    async def count_contested(self, tenant: str, agent: str | None) -> int:
        sql = _CONTESTED.replace("{and_agent}", "AND agent = :agent" if agent else "")
        return await self._count(f"FROM ({sql}) AS contested", {"tenant": tenant, "agent": agent})

    async def long_running(self, tenant: str, agent: str | None, *, after: int, most: int) -> list[Running]:
        """Those that are said to run for longer than configured, the oldest first."""
        sql = _RUNNING_PAGE.replace("{and_agent}", "AND p.agent = :agent" if agent else "")
        parameters = {"tenant": tenant, "agent": agent, "longer_ms": self._longer_ms, "after": after, "most": most}
        async with self._db.read() as connection:
            return [Running(**row) for row in (await connection.execute(self._db.sql(sql), parameters)).mappings()]

    async def count_long_running(self, tenant: str, agent: str | None) -> int:
        sql = _RUNNING.replace("{and_agent}", "AND p.agent = :agent" if agent else "")
        return await self._count(sql, {"tenant": tenant, "agent": agent, "longer_ms": self._longer_ms})

    async def _count(self, source: str, parameters: dict[str, Any]) -> int:
        async with self._db.read() as connection:
            found = await connection.execute(self._db.sql(f"SELECT count(*) {source}"), parameters)
            return int(found.scalar_one())


def _claimant(row: RowMapping) -> Claimant:
    return Claimant(**{name: value for name, value in row.items() if name != "seq"})
