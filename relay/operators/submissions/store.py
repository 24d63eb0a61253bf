"""Reading submissions as operators do: one tenant's, and nobody else's."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.delivery.model import DeliveryId
from relay.operators.submissions.filter import SubmissionFilter, condition
from relay.operators.submissions.model import Attempt, Pauses, Provenance, Story, Submission, obstacles
from relay.operators.submissions.sent import Sent, sent
from relay.provenance.model import Evidence
from relay.storage.engine import Database

MOST_ATTEMPTS: Final = 500
"""How many attempts a story tells of; an owner who presses a button for days makes more."""

_SELECT: Final = """
SELECT s.seq, s.client, s.id, s.agent, s.task, s.ran_as, s.rating, s.comment, s.created_at, s.erased_at,
    s.owner AS owner_number, o.owner_key,
    d.id AS delivery, d.state, d.state_since, d.due_at, d.not_before, d.saved_at, d.attempt_count, d.abandoned_by,
    d.abandoned_why, d.evidence, d.evidence_at, d.resolution,
    a.number AS attempt_number, a.cause AS attempt_cause, a.registration_version AS attempt_version,
    a.started_at AS attempt_at, a.duration_ms AS attempt_duration_ms, a.phase AS attempt_phase,
    a.outcome AS attempt_outcome, a.error_kind AS attempt_reason, a.status AS attempt_status,
    a.ambiguous AS attempt_ambiguous, a.excerpt AS attempt_excerpt
FROM submissions s
JOIN deliveries d ON d.submission = s.seq
JOIN owners o ON o.id = s.owner
LEFT JOIN attempts a ON a.id = (SELECT max(id) FROM attempts WHERE delivery = d.id)
"""

# The numbers of the page come first, so that nothing is joined for what is not on it.
_PAGE: Final = """
SELECT s.seq FROM {source} WHERE {condition} AND s.seq < :before ORDER BY s.seq DESC LIMIT :most
"""
_ROWS: Final = f"{_SELECT} WHERE s.seq IN ({{page}}) ORDER BY s.seq DESC"

_COUNT: Final = "SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {condition} LIMIT :most) AS counted"

_ONE: Final = f"{_SELECT} WHERE s.tenant = :tenant AND o.owner_key = :owner AND s.id = :id"

_LOCATE: Final = """
SELECT d.id FROM submissions s JOIN deliveries d ON d.submission = s.seq JOIN owners o ON o.id = s.owner
WHERE s.tenant = :tenant AND o.owner_key = :owner AND s.id = :id
"""

_ATTEMPTS: Final = """
SELECT number AS attempt_number, cause AS attempt_cause, registration_version AS attempt_version,
    started_at AS attempt_at, duration_ms AS attempt_duration_ms, phase AS attempt_phase, outcome AS attempt_outcome,
    error_kind AS attempt_reason, status AS attempt_status, ambiguous AS attempt_ambiguous, excerpt AS attempt_excerpt
FROM attempts WHERE delivery = :delivery ORDER BY id DESC LIMIT :most
"""

_PROVENANCE: Final = """
SELECT seq, recorded_by, conversation, answer, role, status, ran_as, registration_version, parent, run, created_at,
    finished_at
FROM provenance WHERE owner = :owner AND agent = :agent AND task = :task
"""
_EVIDENCE: Final = "SELECT kind, id FROM provenance_evidence WHERE provenance = :provenance ORDER BY kind, id"

_PAUSES: Final = """
SELECT {now} AS now, b.paused_until, b.open_until
FROM (SELECT 1 AS one) AS asked LEFT JOIN agent_breakers b ON b.agent = :agent
"""


class Submissions:
    """The submissions of a tenant. What is another tenant's is not there."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def page(self, tenant: str, wanted: SubmissionFilter, *, before: int | None, most: int) -> list[Submission]:
        """Newest first, those with a number below ``before``."""
        where = condition(tenant, wanted)
        sql = _ROWS.format(page=_PAGE.format(source=where.source, condition=where.sql))
        parameters = {**where.parameters, "before": before if before is not None else 2**62, "most": most}
        async with self._db.read() as connection:
            rows = await connection.execute(text(sql), parameters)
            return [_submission(row) for row in rows.mappings()]

    async def count(self, tenant: str, wanted: SubmissionFilter, *, most: int = 2**62) -> int:
        """How many there are under a filter, counted up to ``most``."""
        where = condition(tenant, wanted)
        sql = _COUNT.format(source=where.source, condition=where.sql)
        async with self._db.read() as connection:
            found = await connection.execute(text(sql), {**where.parameters, "most": most})
            return int(found.scalar_one())

    async def find(self, tenant: str, owner: str, submission_id: str) -> Submission | None:
        """One by its owner's key and its UUID, in lower case."""
        async with self._db.read() as connection:
            row = await _one(connection, tenant, owner, submission_id)
        return None if row is None else _submission(row)

    async def story(self, tenant: str, owner: str, submission_id: str) -> Story | None:
        """The same with its provenance, its attempts, and what stands in its way."""
        async with self._db.read() as connection:
            row = await _one(connection, tenant, owner, submission_id)
            if row is None:
                return None
            submission = _submission(row)
            pauses = (await connection.execute(self._db.sql(_PAUSES), {"agent": submission.agent})).mappings().one()
            return Story(
                submission=submission,
                provenance=await _provenance(connection, row),
                attempts=await _attempts(connection, submission),
                obstacles=obstacles(submission, Pauses(**pauses)),
            )

    async def sent(self, tenant: str, owner: str, submission_id: str) -> Sent | None:
        """What goes out for it at every attempt. None: there is no such submission, or it was erased."""
        async with self._db.read() as connection:
            return await sent(connection, tenant, owner, submission_id)


async def locate(connection: AsyncConnection, tenant: str, owner: str, submission_id: str) -> DeliveryId | None:
    """The delivery of a submission; None: the tenant has no such submission."""
    found = await connection.execute(text(_LOCATE), {"tenant": tenant, "owner": owner, "id": submission_id})
    number = found.scalar_one_or_none()
    return None if number is None else DeliveryId(number)


async def _one(connection: AsyncConnection, tenant: str, owner: str, submission_id: str) -> RowMapping | None:
    found = await connection.execute(text(_ONE), {"tenant": tenant, "owner": owner, "id": submission_id})
    return found.mappings().first()


async def _attempts(connection: AsyncConnection, submission: Submission) -> Sequence[Attempt]:
    found = await connection.execute(text(_ATTEMPTS), {"delivery": submission.delivery, "most": MOST_ATTEMPTS})
    return [_attempt(row) for row in reversed(found.mappings().all())]


async def _provenance(connection: AsyncConnection, row: RowMapping) -> Provenance | None:
    named = {"owner": row["owner_number"], "agent": row["agent"], "task": row["task"]}
    found = (await connection.execute(text(_PROVENANCE), named)).mappings().first()
    if found is None:
        return None
    evidence = await connection.execute(text(_EVIDENCE), {"provenance": found["seq"]})
    members: dict[str, Any] = {name: value for name, value in found.items() if name != "seq"}
    return Provenance(**members, evidence=[Evidence(item.kind, item.id) for item in evidence])


def _submission(row: RowMapping) -> Submission:
    return Submission(
        seq=row["seq"],
        delivery=row["delivery"],
        owner=row["owner_key"],
        client=row["client"],
        id=row["id"],
        agent=row["agent"],
        task=row["task"],
        ran_as=row["ran_as"],
        rating=row["rating"],
        comment=row["comment"],
        created_at=row["created_at"],
        erased_at=row["erased_at"],
        state=row["state"],
        state_since=row["state_since"],
        due_at=row["due_at"],
        not_before=row["not_before"],
        saved_at=row["saved_at"],
        attempt_count=row["attempt_count"],
        abandoned_by=row["abandoned_by"],
        abandoned_why=row["abandoned_why"],
        evidence=row["evidence"],
        evidence_at=row["evidence_at"],
        resolution=row["resolution"],
        last_attempt=None if row["attempt_number"] is None else _attempt(row),
    )


def _attempt(row: RowMapping) -> Attempt:
    return Attempt(
        number=row["attempt_number"],
        cause=row["attempt_cause"],
        registration_version=row["attempt_version"],
        at=row["attempt_at"],
        duration_ms=row["attempt_duration_ms"],
        phase=row["attempt_phase"],
        outcome=row["attempt_outcome"],
        reason=row["attempt_reason"],
        status=row["attempt_status"],
        ambiguous=bool(row["attempt_ambiguous"]),
        excerpt=row["attempt_excerpt"],
    )
