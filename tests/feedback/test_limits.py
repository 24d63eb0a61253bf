"""What happens at the edges: a full queue, a database that is away, and what a log may hold."""

import asyncio
from pathlib import Path

from tests.support.gateway import SECRET, Gateway, new_id, small_world
from tests.support.logs import logging_to_memory
from tests.support.specialist import answering


async def test_a_full_accept_queue_is_503_and_stores_nothing(tmp_path: Path, sqlite_database_url: str):
    """Past the bound the answer is 503 with Retry-After; the same request later is accepted."""
    async with small_world(tmp_path, sqlite_database_url, queue=1) as (relay, _):
        for n in range(8):
            await relay.record(f"t{n}")
        async with relay.relay.db.write():  # the writer is busy: what arrives waits
            tokens = relay.token()
            bodies = [{"id": new_id(), "taskId": f"t{n}", "rating": "up"} for n in range(8)]
            calls = [
                asyncio.get_running_loop().create_task(relay.call("POST", "/api/feedback", body, token=tokens))
                for body in bodies
            ]
            done: set[asyncio.Task] = set()
            while len(done) < 6:  # one is being written, one waits, six are turned away
                done, _pending = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
        answers = await asyncio.gather(*calls)
        refused = [a for a in answers if a.status == 503]
        assert len(refused) == 6
        assert {a.code for a in refused} == {"accept_queue_full"}
        assert {a.headers["Retry-After"] for a in refused} == {"1"}
        stored = await relay.rows("SELECT id FROM submissions")
        assert len(stored) == 2
        again = await relay.call("POST", "/api/feedback", bodies[7], token=tokens, headers={"Prefer": "wait=10"})
        assert again.status == 201


async def test_no_secret_subject_or_comment_reaches_a_log(tmp_path: Path, sqlite_database_url: str):
    """A whole path with a failure in it: the log tells of requests and attempts, and of nothing that is private."""
    comment, subject = "the comment 4711 of a person", "subject-0815"
    with logging_to_memory() as log:
        async with small_world(tmp_path, sqlite_database_url) as (relay, specialists):
            specialists["literature"].behave = answering(500, {"echo": comment})
            token = relay.token(subject)
            await relay.record("task-private-1", sub=subject)
            await relay.rate("task-private-1", comment=comment, token=token)
            await relay.call("POST", "/api/feedback", {"id": "x", "comment": comment}, token=token)
            await relay.call("GET", f"/api/feedback?taskId={subject}", token=token)
    text = log.text
    for private in (comment, "4711", subject, SECRET, token, token.split(".")[2], "task-private-1"):
        assert private not in text
    assert [line["outcome"] for line in log.events("attempt")][:1] == ["retry"]
    requests = log.events("request")
    assert {r["client"] for r in requests} == {"workbench"}
    assert "/api/feedback" in {r["route"] for r in requests}


async def test_an_absent_database_is_503_and_comes_back(tmp_path: Path, sqlite_database_url: str):
    """A table that is gone for a moment stands for a database that fails: no answer claims that anything was stored."""
    async with small_world(tmp_path, sqlite_database_url) as (relay, _):
        await _fails_and_recovers(relay)


async def _fails_and_recovers(relay: Gateway) -> None:
    await relay.record("t1")
    submission = new_id()
    await relay.change("ALTER TABLE deliveries RENAME TO deliveries_away")
    answered = await relay.rate("t1", id=submission)
    assert answered.status in {500, 503}
    await relay.change("ALTER TABLE deliveries_away RENAME TO deliveries")
    assert await relay.rows("SELECT * FROM submissions") == []
    assert (await relay.rate("t1", id=submission)).status == 201
