"""Bulk work: what a dry run foretells, what a job does, and that it is done once whoever does it."""

import asyncio
import json
from collections import Counter

import pytest

from relay.errors import Refusal
from relay.operators.jobs.model import JobId
from relay.operators.submissions.filter import SubmissionFilter
from tests.delivery.conftest import TENANT
from tests.operators.jobs.conftest import Shop
from tests.support.processes import until

STATES = ("pending", "held", "needs_owner", "rejected", "exhausted", "abandoned", "saved", "conflict", "sending")


async def test_a_dry_run_counts_and_changes_nothing(shop: Shop):
    """By state, and by what would become of each; then the job does exactly that."""
    for number, state in enumerate(STATES * 2):
        await shop.desk.place(number, state=state, due_at=2**52)
    await shop.desk.erase(await shop.desk.place(90, state="rejected"))
    await shop.desk.place(91, state="exhausted", tenant="other")
    await shop.desk.place(92, due_at=1)
    before = await shop.states()
    forecast = await shop.bulk.forecast(TENANT, "retry", SubmissionFilter())
    assert (forecast.total, await shop.states()) == (20, before)
    assert forecast.by_state == {**dict.fromkeys(STATES, 2), "rejected": 3, "pending": 3}
    assert forecast.would == {
        "made_due": 6,
        "reopened": 6,
        "not_retryable": 4,
        "being_sent": 2,
        "erased": 1,
        "already_due": 1,
    }
    job = await shop.ask("retry")
    assert (job.state, job.total, job.examined) == ("waiting", 20, 0)
    await shop.finish()
    done = await shop.now(job)
    assert (done.state, done.examined, done.results) == ("finished", 20, forecast.would)
    assert done.finished_at is not None
    assert (await shop.states())["s-91"] == "exhausted"


async def test_abandoning_many_is_foretold_too(shop: Shop):
    """Only what waits; each with the reason and the job in its audit entry."""
    for number, state in enumerate(STATES):
        await shop.desk.place(number, state=state)
    forecast = await shop.bulk.forecast(TENANT, "abandon", SubmissionFilter())
    assert forecast.would == {"abandoned": 3, "not_abandonable": 5, "being_sent": 1}
    job = await shop.ask("abandon")
    await shop.finish()
    assert (await shop.now(job)).results == forecast.would
    entries = [e for e in await shop.desk.audited() if e["action"] == "submission.abandon"]
    assert {e["target"] for e in entries} == {"ok_1/s-0", "ok_1/s-1", "ok_1/s-2"}
    assert {e["why"] for e in entries} == {"all of them"}
    assert {json.loads(e["after"])["job"] for e in entries} == {job.id}


async def test_a_job_does_what_its_filter_says(shop: Shop):
    """No more than that, of this tenant, and nothing that came in after it was asked for."""
    await shop.desk.place(1, state="exhausted")
    await shop.desk.place(2, state="exhausted", agent="chemistry")
    await shop.desk.place(3, state="rejected")
    job = await shop.ask("retry", state="exhausted", agent="literature")
    await shop.desk.place(4, state="exhausted")
    await shop.finish()
    assert (await shop.now(job)).results == {"reopened": 1}
    assert await shop.states() == {"s-1": "pending", "s-2": "exhausted", "s-3": "rejected", "s-4": "exhausted"}


async def test_a_job_is_audited_from_its_beginning_to_its_end(shop: Shop):
    """Who asked for what, and what came of it; not the words that were searched for, which may be a person's."""
    await shop.desk.place(1, state="held", comment="my name is Bob")
    job = await shop.ask("abandon", q="bob", state="held")
    await shop.finish()
    entries = [e for e in await shop.desk.audited() if e["action"].startswith("job.")]
    assert [(e["action"], e["actor"], e["target"]) for e in entries] == [
        ("job.create", "ok_operator", f"job/{job.id}"),
        ("job.finish", "ok_operator", f"job/{job.id}"),
    ]
    assert json.loads(entries[0]["after"]) == {
        "kind": "abandon",
        "filter": {"state": "held", "q": "(not kept)"},
        "total": 1,
    }
    assert json.loads(entries[1]["after"]) == {"state": "finished", "examined": 1, "results": {"abandoned": 1}}


async def test_what_left_the_state_that_was_meant_is_spared(shop: Shop):
    """Resumed between being chosen and being locked, as another transaction can do on PostgreSQL."""
    delivery = await shop.desk.place(1, state="held")
    await shop.ask("abandon", state="held")
    if shop.desk.db.dialect == "sqlite":
        return  # with one writer there is no between
    async with shop.desk.db.write() as connection:
        await connection.execute(
            shop.desk.db.sql("UPDATE deliveries SET state = 'pending' WHERE id = :id"), {"id": delivery}
        )
        working = asyncio.ensure_future(shop.runner().work_once())
        waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        await until(lambda: shop.desk.outbox.rows(waiting), "a batch that waits for the delivery")
    assert await working
    assert await shop.states() == {"s-1": "pending"}
    [row] = await shop.desk.outbox.rows("SELECT results FROM jobs")
    assert json.loads(row["results"]) == {"changed_meanwhile": 1}


async def test_jobs_take_turns(shop: Shop):
    """A small one does not wait for all of a large one."""
    for number in range(9):
        await shop.desk.place(number, state="exhausted")
    large, small = await shop.ask("retry"), await shop.ask("retry", owner="ok_2")
    await shop.desk.outbox.change("UPDATE jobs SET updated_at = seq")
    runner = shop.runner()
    assert await runner.work_once()
    assert await runner.work_once()
    assert ((await shop.now(large)).examined, (await shop.now(small)).state) == (3, "finished")


async def test_several_processes_share_the_work(shop: Shop):
    """Each submission is looked at once, whoever does it, while a worker claims and settles what is due."""
    for number in range(60):
        await shop.desk.place(number, due_at=1 if number % 2 else 2**52)
    job = await shop.ask("abandon")
    saved: Counter[str] = Counter()

    async def work() -> None:
        while claimed := await shop.desk.outbox.claim(literature=2):
            for one in claimed:
                await shop.desk.outbox.settle(one, "saved")
                saved[one.submission] += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        for _ in range(3):
            group.create_task(shop.finish(shop.runner(4)))
    done = await shop.now(job)
    assert (done.state, done.examined) == ("finished", 60)
    assert sum(done.results.values()) == 60
    states = Counter((await shop.states()).values())
    assert states["abandoned"] == done.results["abandoned"]
    assert states["abandoned"] + states["saved"] == 60
    entries = Counter(e["target"] for e in await shop.desk.audited() if e["action"] == "submission.abandon")
    assert entries.total() == len(entries) == states["abandoned"]
    assert max(saved.values(), default=1) == 1


async def test_a_canceled_job_touches_nothing_more(shop: Shop):
    """What was done stays done and counted; a second time there is nothing to cancel."""
    for number in range(9):
        await shop.desk.place(number, state="exhausted")
    job = await shop.ask("retry")
    assert await shop.runner().work_once()
    canceled = await shop.bulk.cancel(TENANT, job.id, by="ok_other")
    assert (canceled.state, canceled.examined, canceled.results) == ("canceled", 3, {"reopened": 3})
    await shop.finish()
    assert Counter((await shop.states()).values()) == {"pending": 3, "exhausted": 6}
    assert (await shop.now(job)) == canceled
    with pytest.raises(Refusal) as refused:
        await shop.bulk.cancel(TENANT, job.id, by="ok_other")
    assert (refused.value.code, refused.value.extra) == ("job_ended", {"state": "canceled"})
    entry = (await shop.desk.audited())[-1]
    assert (entry["action"], entry["actor"]) == ("job.cancel", "ok_other")
    assert json.loads(entry["after"])["results"] == {"reopened": 3}


async def test_a_job_of_another_tenant_is_absent(shop: Shop):
    """To look at and to cancel, as one that does not exist."""
    job = await shop.ask("retry", tenant="other")
    assert await shop.jobs.find(TENANT, job.id) is None
    for one in (job.id, JobId("absent")):
        with pytest.raises(Refusal) as refused:
            await shop.bulk.cancel(TENANT, one, by="x")
        assert refused.value.code == "job_not_found"
    assert await shop.jobs.page(TENANT, None, before=None, most=10) == []
    assert await shop.jobs.count("other", "waiting") == 1


@pytest.mark.parametrize("stored", ['{"state": "exhausted", "mood": "bad"}', '["exhausted"]', "{state"])
async def test_a_filter_that_is_not_understood_is_not_guessed(shop: Shop, stored: str):
    """A job of a later version: with a member left out, more would be done than was asked for. Nor does a filter that
    is none end the runner, who has other jobs."""  # noqa: D209
    delivery = await shop.desk.place(1, state="exhausted")
    job = await shop.ask("retry", state="exhausted")
    await shop.desk.outbox.change("UPDATE jobs SET filter = :filter", filter=stored)
    await shop.finish()
    [row] = await shop.desk.outbox.rows("SELECT state, problem FROM jobs")
    assert row == {"state": "failed", "problem": "filter_not_understood"}
    assert (await shop.desk.outbox.row(delivery))["state"] == "exhausted"
    assert job.state == "waiting"


async def test_a_batch_that_is_cut_off_has_done_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    """The place in the job and what was done to deliveries commit together."""
    for number in range(6):
        await shop.desk.place(number, state="exhausted")
    job = await shop.ask("retry")
    runner = shop.runner()
    assert await runner.work_once()

    async def cut_off(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(shop.jobs, "advance", cut_off)
        with pytest.raises(asyncio.CancelledError):
            await runner.work_once()
    assert (await shop.now(job)).examined == 3
    assert Counter((await shop.states()).values()) == {"pending": 3, "exhausted": 3}
    await shop.finish()
    assert (await shop.now(job)).results == {"reopened": 6}


async def test_the_runner_wakes_for_a_new_job(shop: Shop):
    """And works it off while it runs in the background."""
    await shop.desk.place(1, state="exhausted")
    runner = shop.runner()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(runner.run())
        job = await shop.ask("retry")
        runner.wake()
        await until(lambda: shop.jobs.count(TENANT, "finished"), "the end of the job")
        running.cancel()
    assert (await shop.now(job)).results == {"reopened": 1}
