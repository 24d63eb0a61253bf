"""Asking for a job, and calling it off: each with its audit entry."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from relay.errors import Refusal
from relay.operators import audit
from relay.operators.jobs.model import OPEN, Forecast, Job, JobId
from relay.operators.jobs.store import Jobs
from relay.operators.submissions.filter import SubmissionFilter, said_without_words
from relay.operators.submissions.model import Action
from relay.redaction import redact
from relay.storage.engine import Database


class Bulk:
    """Bulk work on one tenant's submissions. ``wake`` has this process look for it."""

    def __init__(self, db: Database, jobs: Jobs, wake: Callable[[], None]) -> None:
        self._db = db
        self._jobs = jobs
        self._wake = wake

    async def forecast(self, tenant: str, kind: Action, wanted: SubmissionFilter) -> Forecast:
        """What would be done, by the same judgement; nothing is."""
        return await self._jobs.forecast(tenant, kind, wanted)

    async def ask(self, tenant: str, kind: Action, wanted: SubmissionFilter, *, by: str, why: str | None) -> Job:
        """Write down what is to be done; whichever process is free does it."""
        why = None if why is None else redact(why)
        async with self._db.write() as connection:
            job = await self._jobs.create(connection, tenant, kind, wanted, actor=by, why=why)
            after = {"kind": kind, "filter": said_without_words(wanted), "total": job.total}
            await record(connection, job, "job.create", by, at=job.created_at, before=None, after=after, why=why)
        self._wake()
        return job

    async def cancel(self, tenant: str, job_id: JobId, *, by: str) -> Job:
        """Touch nothing more. What was done stays, and is counted in the job.

        Raises `Refusal` (``job_not_found``, ``job_ended``).
        """
        async with self._db.write() as connection:
            job = await self._jobs.lock(connection, tenant, job_id)
            if job is None:
                raise absent()
            if job.state not in OPEN:
                raise Refusal(
                    "job_ended", f"The job is {job.state}: there is nothing to cancel.", extra={"state": job.state}
                )
            await self._jobs.end(connection, job.seq, "canceled")
            at = await self._db.now_ms(connection)
            before, after = {"state": job.state}, {"state": "canceled", **progress(job)}
            await record(connection, job, "job.cancel", by, at=at, before=before, after=after)
        ended = await self._jobs.find(tenant, job_id)
        if ended is None:
            raise LookupError("jobs are never deleted")
        return ended


def absent() -> Refusal:
    """The one answer for what does not exist and for what is another tenant's."""
    return Refusal("job_not_found", "Your tenant has no job of this id.")


def progress(job: Job) -> dict[str, Any]:
    return {"examined": job.examined, "results": dict(job.results)}


async def record(
    connection: AsyncConnection,
    job: Job,
    action: str,
    by: str,
    *,
    at: int,
    before: dict[str, Any] | None,
    after: dict[str, Any],
    why: str | None = None,
) -> None:
    """What happened to a job, as the audit log has it."""
    await audit.record(
        connection,
        at=at,
        actor=by,
        action=action,
        target=f"job/{job.id}",
        tenant=job.tenant,
        before=before,
        after=after,
        why=why,
    )
