"""Works off jobs in the background, a batch at a time, whichever process is there."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

import structlog
from sqlalchemy import RowMapping
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.registrations import Decision
from relay.operators.jobs.asking import record
from relay.operators.jobs.model import Job
from relay.operators.jobs.store import Jobs, job_of
from relay.operators.submissions.acting import Acted, act
from relay.operators.submissions.model import Outcome
from relay.redaction import outline
from relay.storage.engine import Database

log = structlog.get_logger(__name__)

BATCH: Final = 200
"""How many submissions a transaction looks at: their deliveries stay locked as long as it takes."""

PAUSE_SECONDS: Final = 1.0


class Runner:
    """Any number of them run side by side.

    A batch is one transaction: what it does to deliveries commits with the place in the job behind it. So each
    submission is looked at once, and a process that dies in a batch has done nothing of it.
    """

    def __init__(self, db: Database, jobs: Jobs, *, poll_seconds: float, batch: int = BATCH) -> None:
        self._db = db
        self._jobs = jobs
        self._poll = poll_seconds
        self._batch = batch
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look now instead of at the next poll."""
        self._wake.set()

    async def run(self) -> None:
        """Work for ever. A database that is away is waited for."""
        while True:
            self._wake.clear()
            try:
                while await self.work_once():
                    pass
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                # A deadlock with somebody who also changes many deliveries is among these: the batch starts over.
                log.warning("job_interrupted", **outline(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._wake.wait()

    async def work_once(self) -> bool:
        """One batch of one job; False: there was none to work on."""
        if not await self._jobs.any_open():
            return False
        async with self._db.write() as connection:
            row = await self._jobs.take(connection)
            if row is None:
                return False
            job = _readable(row)
            if job is None:
                # Asked for in words of another version: somebody who knows them has to ask again.
                await self._jobs.end(connection, row["seq"], "failed", problem="filter_not_understood")
            else:
                await self._advance(connection, job)
        return True

    async def _advance(self, connection: AsyncConnection, job: Job) -> None:
        chosen = await self._jobs.choose(connection, job, self._batch)
        decision = Decision(job.actor, job.why, await self._db.now_ms(connection))
        deliveries = [delivery for _, delivery in chosen]
        acted = await act(self._db, connection, job.kind, deliveries, decision, only=job.filter.state, job=job.id)
        results = _added(job, acted)
        position = chosen[-1][0] if chosen else job.upto
        examined = job.examined + len(acted)
        await self._jobs.advance(connection, job, examined=examined, results=results, position=position)
        if len(chosen) < self._batch:
            await self._jobs.end(connection, job.seq, "finished")
            after = {"state": "finished", "examined": examined, "results": results}
            await record(
                connection, job, "job.finish", job.actor, at=decision.at, before={"state": job.state}, after=after
            )


def _readable(row: RowMapping) -> Job | None:
    try:
        return job_of(row)
    except (TypeError, ValueError):
        return None


def _added(job: Job, acted: list[Acted]) -> dict[Outcome, int]:
    total: Counter[Outcome] = Counter(dict(job.results))
    total.update(one.outcome for one in acted)
    return dict(total)
