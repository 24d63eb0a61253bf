"""Requests that come in an order nobody planned: early, twice, crosswise, or from somebody who has left."""

import asyncio
from pathlib import Path

import pytest

from relay.config import load
from tests.support.gateway import Answered, Gateway, gateway, new_id, write_config
from tests.support.issuer import TestIssuer
from tests.support.specialist import Held, Specialist

TASKS = [f"t{n}" for n in range(40)]


async def test_a_rating_before_its_task(relay: Gateway, literature: Specialist):
    """Refused while nobody knows of the task, with nothing stored; the same UUID is welcome once it is on record."""
    submission = new_id()
    await relay.record("another")
    early = await relay.rate("t1", id=submission)
    assert (early.status, early.code) == (404, "task_not_found")
    assert await relay.rows("SELECT * FROM submissions") == []
    await relay.record("t1")
    assert (await relay.rate("t1", id=submission)).status == 201
    assert [post.json["id"] for post in literature.posts] == [submission]


async def test_2500_emoji_are_refused(relay: Gateway, literature: Specialist):
    """5,000 code units: the answer points at the comment, nothing is stored, and the UUID is still free."""
    await relay.record("t1")
    submission = new_id()
    refused = await relay.rate("t1", id=submission, comment="\U0001f600" * 2500)
    assert (refused.status, refused.code) == (422, "invalid_field")
    assert [error["pointer"] for error in refused.json["errors"]] == ["/comment"]
    assert await relay.rows("SELECT * FROM submissions") == []
    assert literature.received == []
    assert (await relay.rate("t1", id=submission, comment="\U0001f600" * 2000)).status == 201


async def test_a_caller_who_left_after_the_commit(relay: Gateway, literature: Specialist):
    """The answer is lost with the connection; the repeat is told of what is stored, and sends nothing a second time."""
    held = literature.behave = Held()
    await relay.record("t1")
    submission = new_id()
    leaving = asyncio.ensure_future(relay.rate("t1", id=submission, comment="Well found."))
    await literature.wait_for_posts(1)  # so it is committed
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    held.let_go()
    stored = await relay.until(submission, "saved")
    repeated = await relay.rate("t1", id=submission, comment="Well found.")
    assert (repeated.status, repeated.json["createdAt"]) == (201, stored["createdAt"])
    assert len(literature.posts) == 1


async def test_two_gateways_accept_in_opposite_orders(tmp_path: Path, database_url: str):
    """The same ratings from both ends at once: no deadlock, and each is stored once and sent as one."""
    async with Specialist() as literature, TestIssuer() as issuer:
        config = load(write_config(tmp_path, database_url, issuer, {"literature": literature.origin}), {})
        async with gateway(config, issuer) as one, gateway(config, issuer) as other:
            await asyncio.gather(*(one.record(task) for task in TASKS))
            submissions = {task: new_id() for task in TASKS}

            async def rate(through: Gateway, tasks: list[str]) -> list[Answered]:
                return await asyncio.gather(*(through.rate(task, id=submissions[task]) for task in tasks))

            answers = await asyncio.gather(rate(one, TASKS), rate(other, TASKS[::-1]))
            assert {answered.status for half in answers for answered in half} <= {201, 202}
            for submission in submissions.values():
                await one.until(submission, "saved")
            stored = await one.rows("SELECT id, task FROM submissions")
            assert sorted((row["task"], row["id"]) for row in stored) == sorted(submissions.items())
            assert {post.json["id"]: post.json["taskId"] for post in literature.posts} == {
                submission: task for task, submission in submissions.items()
            }
