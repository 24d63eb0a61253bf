"""Provenance as stored: one record per owner, agent and task."""

from dataclasses import dataclass

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId, Version
from relay.identity.model import OwnerId
from relay.provenance.model import Evidence, Task, merge
from relay.storage.engine import Database

SELECT = """
SELECT seq, conversation, answer, role, status, ran_as, parent, run, registration_version, created_at, finished_at
FROM provenance WHERE owner = :owner AND agent = :agent AND task = :task
"""

INSERT = """
INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task, conversation, answer, role,
    ran_as, status, parent, run, created_at, finished_at)
VALUES (:owner, :tenant, :recorded_by, :agent, (
    SELECT COALESCE(a.approved_version, (SELECT max(r.version) FROM registrations r WHERE r.agent = a.id))
    FROM agents a WHERE a.id = :agent), :task, :conversation, :answer, :role, :ran_as, :status,
    :parent, :run, {now}, CASE WHEN :status = 'running' THEN NULL ELSE {now} END)
ON CONFLICT DO NOTHING RETURNING seq
"""

UPDATE = """
UPDATE provenance SET status = :status, parent = :parent, run = :run,
    finished_at = CASE WHEN :status = 'running' THEN NULL ELSE COALESCE(finished_at, {now}) END
WHERE seq = :seq
"""

ADD_EVIDENCE = "INSERT INTO provenance_evidence (provenance, kind, id) VALUES (:provenance, :kind, :id)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Where a record belongs and who wrote it."""

    owner: OwnerId
    tenant: str
    recorded_by: str
    agent: AgentId
    task: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A record as it stands. Times in milliseconds."""

    agent: AgentId
    task_id: str
    task: Task
    version: Version
    created_at: int
    finished_at: int | None


class Tasks:
    """The specialist and coordinator tasks on record."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def record(self, where: Recording, said: Task) -> tuple[Recorded, bool]:
        """Write or extend one record; true the first time. Raises what `relay.provenance.model.merge` raises."""
        async with self._db.write() as connection:
            stored = await self._find(connection, where)
            if stored is None and await self._insert(connection, where, said):
                return await self._read(connection, where), True
            # Another process may have been first: its row is read, then the word is weighed against it.
            stored = stored or await self._require(connection, where)
            before = await self._task(connection, stored)
            after = merge(before, said)
            if after != before:
                await self._update(connection, stored["seq"], before, after)
            return await self._read(connection, where), False

    async def _find(self, connection: AsyncConnection, where: Recording) -> RowMapping | None:
        lock = " FOR UPDATE" if self._db.dialect == "postgresql" else ""
        found = await connection.execute(
            self._db.sql(SELECT + lock), {"owner": where.owner, "agent": where.agent, "task": where.task}
        )
        return found.mappings().one_or_none()

    async def _require(self, connection: AsyncConnection, where: Recording) -> RowMapping:
        found = await self._find(connection, where)
        if found is None:
            raise LookupError("provenance is never deleted")
        return found

    async def _insert(self, connection: AsyncConnection, where: Recording, said: Task) -> bool:
        made = await connection.execute(
            self._db.sql(INSERT),
            {
                "owner": where.owner,
                "tenant": where.tenant,
                "recorded_by": where.recorded_by,
                "agent": where.agent,
                "task": where.task,
                "conversation": said.conversation,
                "answer": said.answer,
                "role": said.role,
                "ran_as": said.ran_as or "owner",
                "status": said.status,
                "parent": said.parent,
                "run": said.run,
            },
        )
        seq = made.scalar_one_or_none()
        if seq is None:
            return False
        await self._add_evidence(connection, seq, said.evidence)
        return True

    async def _update(self, connection: AsyncConnection, seq: int, before: Task, after: Task) -> None:
        await connection.execute(
            self._db.sql(UPDATE), {"seq": seq, "status": after.status, "parent": after.parent, "run": after.run}
        )
        await self._add_evidence(connection, seq, after.evidence - before.evidence)

    async def _add_evidence(self, connection: AsyncConnection, seq: int, evidence: frozenset[Evidence]) -> None:
        if evidence:
            rows = [{"provenance": seq, "kind": e.kind, "id": e.id} for e in sorted(evidence)]
            await connection.execute(self._db.sql(ADD_EVIDENCE), rows)

    async def _task(self, connection: AsyncConnection, row: RowMapping) -> Task:
        evidence = await connection.execute(
            self._db.sql("SELECT kind, id FROM provenance_evidence WHERE provenance = :seq"), {"seq": row["seq"]}
        )
        return Task(
            conversation=row["conversation"],
            answer=row["answer"],
            role=row["role"],
            status=row["status"],
            ran_as=row["ran_as"],
            parent=row["parent"],
            run=row["run"],
            evidence=frozenset(Evidence(e.kind, e.id) for e in evidence),
        )

    async def _read(self, connection: AsyncConnection, where: Recording) -> Recorded:
        row = await self._require(connection, where)
        return Recorded(
            agent=where.agent,
            task_id=where.task,
            task=await self._task(connection, row),
            version=row["registration_version"],
            created_at=row["created_at"],
            finished_at=row["finished_at"],
        )
