"""Reading submissions, each with its delivery and newest attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from typing import Any

from sqlalchemy import RowMapping, text

from registry.model import AgentId, RanAs
from relay.delivery.model import State
from relay.feedback.model import LastAttempt, Submission
from relay.identity.model import OwnerId
from relay.provenance.model import Status
from relay.storage.engine import Database
from relay.storage.express import for_psycopg

COLUMNS = """
    s.seq, s.tenant, s.registration_version, s.id, s.agent, s.task, s.ran_as, s.rating, s.comment, s.created_at,
    s.erased_at, d.id AS delivery,
    d.state, d.due_at, d.saved_at, d.evidence, d.evidence_at, d.resolution, p.run,
    a.number AS attempt_number, a.cause AS attempt_cause, a.started_at AS attempt_at, a.outcome AS attempt_outcome,
    a.error_kind AS attempt_reason, a.status AS attempt_status, a.ambiguous AS attempt_ambiguous
"""
JOINS = """
    JOIN deliveries d ON d.submission = s.seq
    LEFT JOIN attempts a ON a.id = (SELECT max(id) FROM attempts WHERE delivery = d.id)
    LEFT JOIN provenance p ON p.owner = s.owner AND p.task = s.task AND p.agent = s.agent
"""
SELECT = f"SELECT {COLUMNS} FROM submissions s {JOINS}"

PAGE = (
    SELECT
    + """
WHERE s.owner = :owner AND s.seq < :before AND (:state IS NULL OR d.state = :state)
    AND (:agent IS NULL OR s.agent = :agent) AND (:task IS NULL OR s.task = :task)
ORDER BY s.seq DESC LIMIT :most
"""
)

TARGETS = f"""
SELECT p.answer, p.agent AS target_agent, p.task AS target_task, p.status AS task_status,
    p.ran_as AS target_ran_as, {COLUMNS}
FROM provenance p
LEFT JOIN submissions s ON s.owner = p.owner AND s.agent = p.agent AND s.task = p.task
LEFT JOIN deliveries d ON d.submission = s.seq
LEFT JOIN attempts a ON a.id = (SELECT max(id) FROM attempts WHERE delivery = d.id)
WHERE p.owner = :owner AND p.role = 'specialist' AND {{which}} ORDER BY p.seq
"""

ANSWERS = """
SELECT answer, min(seq) AS first FROM provenance WHERE owner = :owner AND conversation = :conversation
GROUP BY answer HAVING min(seq) > :after ORDER BY min(seq) LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which of an owner's submissions a list shows; None: any."""

    state: State | None = None
    agent: str | None = None
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A specialist task that a rating may name, with the submission that it has."""

    answer: str
    agent: AgentId
    task: str
    status: Status
    ran_as: RanAs
    submission: Submission | None


LINES = 4
"""Connections for reading one submission: over a slow network a single one would hold the others up."""


class Submissions:
    """The submissions of every owner; each read is for one."""

    def __init__(self, db: Database) -> None:
        self._db = db
        # One submission is read at the end of every rating that waits for its acknowledgement.
        self._lines = cycle([db.line() for _ in range(LINES)]) if db.dialect == "postgresql" else None

    async def find(self, owner: OwnerId, submission_id: str) -> Submission | None:
        return await self._one("WHERE s.owner = :owner AND s.id = :id", {"owner": owner, "id": submission_id})

    async def get(self, seq: int) -> Submission:
        """By its number, which comes from a row that refers to it."""
        found = await self._one("WHERE s.seq = :seq", {"seq": seq})
        if found is None:
            raise LookupError("submissions are never deleted")
        return found

    async def _one(self, where: str, parameters: dict[str, object]) -> Submission | None:
        if self._lines is not None:
            rows = await next(self._lines).rows(_prepared(where), parameters)
            return _submission(rows[0]) if rows else None
        async with self._db.read() as connection:
            row = (await connection.execute(text(SELECT + where), parameters)).mappings().first()
        return None if row is None else _submission(row)

    async def page(self, owner: OwnerId, wanted: Filter, *, before: int | None, most: int) -> list[Submission]:
        """Newest first, those older than ``before``."""
        parameters = {
            "owner": owner,
            "before": before if before is not None else 2**62,
            "state": wanted.state,
            "agent": wanted.agent,
            "task": wanted.task,
            "most": most,
        }
        typed = PAGE
        for name in ("state", "agent", "task"):  # psycopg cannot tell the type of a parameter that is only compared
            typed = typed.replace(f":{name} IS NULL", f"CAST(:{name} AS text) IS NULL")
        async with self._db.read() as connection:
            rows = await connection.execute(text(typed), parameters)
            return [_submission(row) for row in rows.mappings()]

    async def targets_of_answer(self, owner: OwnerId, answer: str) -> list[Target] | None:
        """The specialist tasks behind an answer; None if the owner has no such answer."""
        async with self._db.read() as connection:
            known = await connection.execute(
                text("SELECT 1 FROM provenance WHERE owner = :owner AND answer = :answer LIMIT 1"),
                {"owner": owner, "answer": answer},
            )
            if known.first() is None:
                return None
            sql = TARGETS.format(which="p.answer = :answer")
            rows = await connection.execute(text(sql), {"owner": owner, "answer": answer})
            return [_target(row) for row in rows.mappings()]

    async def targets_of_task(self, owner: OwnerId, task: str) -> list[Target]:
        """The specialist tasks that a task id may mean."""
        async with self._db.read() as connection:
            sql = TARGETS.format(which="p.task = :task")
            rows = await connection.execute(text(sql), {"owner": owner, "task": task})
            return [_target(row) for row in rows.mappings()]

    async def answers_of_conversation(
        self, owner: OwnerId, conversation: str, *, after: int, most: int
    ) -> Sequence[tuple[str, int]]:
        """Answers with the number of their first task, oldest first, those past ``after``."""
        parameters = {"owner": owner, "conversation": conversation, "after": after, "most": most}
        async with self._db.read() as connection:
            return [(row.answer, row.first) for row in await connection.execute(text(ANSWERS), parameters)]

    async def targets_of_answers(self, owner: OwnerId, conversation: str, answers: Sequence[str]) -> list[Target]:
        """The specialist tasks behind several answers of one conversation."""
        names = {f"a{n}": answer for n, answer in enumerate(answers)}
        which = f"p.conversation = :conversation AND p.answer IN ({', '.join(f':{name}' for name in names)})"
        async with self._db.read() as connection:
            rows = await connection.execute(
                text(TARGETS.format(which=which)), {"owner": owner, "conversation": conversation, **names}
            )
            return [_target(row) for row in rows.mappings()]


@cache
def _prepared(where: str) -> str:
    return for_psycopg(SELECT + where)


def _target(row: Mapping[str, Any] | RowMapping) -> Target:
    return Target(
        answer=row["answer"],
        agent=row["target_agent"],
        task=row["target_task"],
        status=row["task_status"],
        ran_as=row["target_ran_as"],
        submission=None if row["seq"] is None else _submission(row),
    )


def _submission(row: Mapping[str, Any] | RowMapping) -> Submission:
    return Submission(
        seq=row["seq"],
        tenant=row["tenant"],
        pinned=row["registration_version"],
        delivery=row["delivery"],
        id=row["id"],
        agent=row["agent"],
        task=row["task"],
        ran_as=row["ran_as"],
        rating=row["rating"],
        comment=row["comment"],
        created_at=row["created_at"],
        erased_at=row["erased_at"],
        state=row["state"],
        due_at=row["due_at"],
        saved_at=row["saved_at"],
        evidence=row["evidence"],
        evidence_at=row["evidence_at"],
        resolution=row["resolution"],
        run=row["run"],
        last_attempt=None if row["attempt_number"] is None else _last_attempt(row),
    )


def _last_attempt(row: Mapping[str, Any] | RowMapping) -> LastAttempt:
    return LastAttempt(
        number=row["attempt_number"],
        cause=row["attempt_cause"],
        at=row["attempt_at"],
        outcome=row["attempt_outcome"],
        reason=row["attempt_reason"],
        status=row["attempt_status"],
        ambiguous=bool(row["attempt_ambiguous"]),
    )
