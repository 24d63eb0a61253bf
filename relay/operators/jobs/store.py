"""Jobs in the database. Who works on one has its row locked: a process that dies lets go of it with its connection."""

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.delivery.model import DeliveryId
from relay.operators.jobs.model import Forecast, Job, JobId, JobState, Results
from relay.operators.submissions.filter import WITH_DELIVERIES, SubmissionFilter, condition, said
from relay.operators.submissions.model import Action, Outcome, Standing, judge
from relay.storage.engine import Database

_COLUMNS: Final = """
seq, id, tenant, kind, filter, actor, why, state, total, examined, results, position, upto, problem, created_at,
updated_at, finished_at
"""
_CREATE: Final = f"""
INSERT INTO jobs (id, tenant, kind, filter, actor, why, state, total, examined, results, position, upto, created_at,
    updated_at)
SELECT :id, :tenant, :kind, :filter, :actor, :why, 'waiting', :total, 0, :results, 0,
    COALESCE((SELECT max(seq) FROM submissions WHERE tenant = :tenant), 0), {{now}}, {{now}}
RETURNING {_COLUMNS}
"""
_ONE: Final = f"SELECT {_COLUMNS} FROM jobs WHERE tenant = :tenant AND id = :id"
_PAGE: Final = f"SELECT {_COLUMNS} FROM jobs WHERE {{where}} AND seq < :before ORDER BY seq DESC LIMIT :most"
_COUNT: Final = "SELECT count(*) FROM jobs WHERE {where}"

_ANY_OPEN: Final = "SELECT EXISTS (SELECT 1 FROM jobs WHERE finished_at IS NULL)"
# By turns, and past those that another process is working on.
_TAKE: Final = f"""
SELECT {_COLUMNS} FROM jobs WHERE finished_at IS NULL ORDER BY updated_at, seq LIMIT 1 {{lock}}
"""
_ADVANCE: Final = """
UPDATE jobs SET state = :state, examined = :examined, results = :results, position = :position, updated_at = {now}
WHERE seq = :seq
"""
_END: Final = (
    "UPDATE jobs SET state = :state, problem = :problem, updated_at = {now}, finished_at = {now} WHERE seq = :seq"
)

_CHOOSE: Final = f"""
SELECT s.seq, d.id AS delivery FROM {WITH_DELIVERIES}
WHERE {{condition}} AND s.seq > :position AND s.seq <= :upto ORDER BY s.seq LIMIT :most
"""
_STANDINGS: Final = f"""
SELECT d.state, s.erased_at IS NOT NULL AS erased, d.due_at > {{now}} AND d.due_at > d.not_before AS waits_longer,
    count(*) AS total
FROM {WITH_DELIVERIES} WHERE {{condition}} GROUP BY 1, 2, 3
"""


class Jobs:
    """The jobs of every tenant; who reads names the tenant."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._postgresql = db.dialect == "postgresql"

    async def forecast(self, tenant: str, kind: Action, wanted: SubmissionFilter) -> Forecast:
        """What a job of this kind would do; nothing is changed."""
        async with self._db.read() as connection:
            return await self._forecast(connection, tenant, kind, wanted)

    async def _forecast(
        self, connection: AsyncConnection, tenant: str, kind: Action, wanted: SubmissionFilter
    ) -> Forecast:
        where = condition(tenant, wanted)
        by_state: Counter[str] = Counter()
        would: Counter[Outcome] = Counter()
        for row in await connection.execute(self._over(_STANDINGS, where.sql), where.parameters):
            standing = Standing(state=row.state, erased=bool(row.erased), waits_longer=bool(row.waits_longer))
            by_state[row.state] += row.total
            would[judge(kind, standing)] += row.total
        return Forecast(total=by_state.total(), by_state=by_state, would=would)

    async def create(
        self,
        connection: AsyncConnection,
        tenant: str,
        kind: Action,
        wanted: SubmissionFilter,
        *,
        actor: str,
        why: str | None,
    ) -> Job:
        """A new job over the submissions that there are now."""
        forecast = await self._forecast(connection, tenant, kind, wanted)
        parameters = {
            "id": str(uuid.uuid4()),
            "tenant": tenant,
            "kind": kind,
            "filter": json.dumps(said(wanted)),
            "actor": actor,
            "why": why,
            "total": forecast.total,
            "results": "{}",
        }
        made = await connection.execute(self._db.sql(_CREATE), parameters)
        return job_of(made.mappings().one())

    async def find(self, tenant: str, job: JobId) -> Job | None:
        async with self._db.read() as connection:
            return await self._find(connection, tenant, job, "")

    async def lock(self, connection: AsyncConnection, tenant: str, job: JobId) -> Job | None:
        """The job, which nobody works on until the transaction ends; a batch that is under way is waited for."""
        return await self._find(connection, tenant, job, "FOR UPDATE" if self._postgresql else "")

    async def _find(self, connection: AsyncConnection, tenant: str, job: JobId, lock: str) -> Job | None:
        found = await connection.execute(text(f"{_ONE} {lock}"), {"tenant": tenant, "id": job})
        row = found.mappings().first()
        return None if row is None else job_of(row)

    async def page(self, tenant: str, state: JobState | None, *, before: int | None, most: int) -> list[Job]:
        """Newest first, those with a number below ``before``."""
        where, parameters = _where(tenant, state)
        parameters |= {"before": before if before is not None else 2**62, "most": most}
        async with self._db.read() as connection:
            found = await connection.execute(text(_PAGE.format(where=where)), parameters)
            return [job_of(row) for row in found.mappings()]

    async def count(self, tenant: str, state: JobState | None) -> int:
        where, parameters = _where(tenant, state)
        async with self._db.read() as connection:
            return int((await connection.execute(text(_COUNT.format(where=where)), parameters)).scalar_one())

    async def any_open(self) -> bool:
        """Whether there may be work. Looking first keeps an idle process from SQLite's write lock."""
        async with self._db.read() as connection:
            return bool((await connection.execute(text(_ANY_OPEN))).scalar())

    async def take(self, connection: AsyncConnection) -> RowMapping | None:
        """The row of an open job that nobody else works on until the transaction ends: the one that waited longest."""
        lock = "FOR UPDATE SKIP LOCKED" if self._postgresql else ""
        return (await connection.execute(text(_TAKE.format(lock=lock)))).mappings().first()

    async def choose(self, connection: AsyncConnection, job: Job, most: int) -> Sequence[tuple[int, DeliveryId]]:
        """The next submissions of a job, each by its number and that of its delivery."""
        where = condition(job.tenant, job.filter)
        parameters = {**where.parameters, "position": job.position, "upto": job.upto, "most": most}
        found = await connection.execute(self._over(_CHOOSE, where.sql), parameters)
        return [(row.seq, DeliveryId(row.delivery)) for row in found]

    async def advance(
        self, connection: AsyncConnection, job: Job, *, examined: int, results: Results, position: int
    ) -> None:
        """Write how far a job has come; its row is locked."""
        parameters = {
            "seq": job.seq,
            "state": "running",
            "examined": examined,
            "results": json.dumps(results, sort_keys=True),
            "position": position,
        }
        await connection.execute(self._db.sql(_ADVANCE), parameters)

    async def end(self, connection: AsyncConnection, seq: int, state: JobState, *, problem: str | None = None) -> None:
        """Close a job for good; its row is locked."""
        await connection.execute(self._db.sql(_END), {"seq": seq, "state": state, "problem": problem})

    def _over(self, statement: str, condition: str) -> TextClause:
        return self._db.sql(statement.replace("{condition}", condition))


def job_of(row: RowMapping) -> Job:
    """The job of a row that was taken. Raises TypeError or ValueError where this program cannot read its filter."""
    members: Mapping[str, Any] = {
        **row,
        "filter": SubmissionFilter(**json.loads(row["filter"])),
        "results": json.loads(row["results"]),
    }
    return Job(**members)


def _where(tenant: str, state: JobState | None) -> tuple[str, dict[str, Any]]:
    if state is None:
        return "tenant = :tenant", {"tenant": tenant}
    return "tenant = :tenant AND state = :state", {"tenant": tenant, "state": state}
