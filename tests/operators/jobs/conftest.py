"""The desk of the operators' tests, with jobs on it."""

from dataclasses import dataclass
from typing import Any

import pytest

from relay.operators.jobs.asking import Bulk
from relay.operators.jobs.model import Job
from relay.operators.jobs.runner import Runner
from relay.operators.jobs.store import Jobs
from relay.operators.submissions.filter import SubmissionFilter
from relay.operators.submissions.model import Action
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import Desk, desk, outbox

__all__ = ["desk", "outbox"]


@dataclass
class Shop:
    """Where bulk work is asked for and done."""

    desk: Desk
    jobs: Jobs
    bulk: Bulk

    def runner(self, batch: int = 3) -> Runner:
        return Runner(self.desk.db, self.jobs, poll_seconds=0.02, batch=batch)

    async def ask(self, kind: Action, *, tenant: str = TENANT, why: str | None = "all of them", **wanted: Any) -> Job:
        return await self.bulk.ask(tenant, kind, SubmissionFilter(**wanted), by="ok_operator", why=why)

    async def finish(self, *runners: Runner) -> None:
        """Let a runner go on until there is nothing left to do."""
        for runner in runners or (self.runner(),):
            while await runner.work_once():
                pass

    async def now(self, job: Job) -> Job:
        found = await self.jobs.find(job.tenant, job.id)
        assert found is not None
        return found

    async def states(self) -> dict[str, str]:
        rows = await self.desk.outbox.rows(
            "SELECT s.id, d.state FROM submissions s JOIN deliveries d ON d.submission = s.seq"
        )
        return {row["id"]: row["state"] for row in rows}


@pytest.fixture
async def shop(desk: Desk) -> Shop:
    jobs = Jobs(desk.db)
    return Shop(desk, jobs, Bulk(desk.db, jobs, lambda: None))
