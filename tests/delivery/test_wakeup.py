"""LISTEN and NOTIFY: a worker hears of what another process made due, and gets over a connection that breaks."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import make_url

from relay.delivery import courier
from relay.delivery.wakeup import listen, notify
from relay.storage.engine import Database
from tests.support.gateway import new_id, small_world
from tests.support.specialist import Held, answering


async def test_a_notification_wakes(postgres_database_url: str):
    """What is notified with a commit wakes every listener."""
    db = Database.open(postgres_database_url)
    woken = asyncio.Event()
    task = asyncio.get_running_loop().create_task(listen(make_url(postgres_database_url), woken.set))
    try:
        await woken.wait()  # it listens: whatever was notified before counts as one wake-up
        woken.clear()
        async with db.write() as connection:
            await notify(connection)
        await woken.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await db.close()


async def test_a_listener_comes_back(postgres_database_url: str):
    """Its connection is killed: it connects again, and looks once for what it may have missed."""
    db = Database.open(postgres_database_url)
    woken = asyncio.Event()
    task = asyncio.get_running_loop().create_task(
        listen(make_url(postgres_database_url), woken.set, reconnect_seconds=0.01)
    )
    try:
        await woken.wait()
        woken.clear()
        async with db.write() as connection:
            await connection.execute(
                db.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND query LIKE 'LISTEN%'"
                )
            )
        await woken.wait()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await db.close()


async def test_a_rating_that_finds_no_slot_is_picked_up_without_a_poll(tmp_path: Path, postgres_database_url: str):
    """One slot, a poll of an hour: the second rating is stored pending, and the wake-up has it sent all the same."""
    settings = {"in_flight": 1, "poll": 3600}
    async with small_world(tmp_path, postgres_database_url, **settings) as (relay, specialists):
        hold = asyncio.Event()
        literature = specialists["literature"]
        acknowledge = literature.behave

        async def held(received):  # noqa: ANN001
            await hold.wait()
            return await acknowledge(received)

        literature.behave = held
        await relay.record("t1")
        await relay.record("t2")
        first, second = new_id(), new_id()
        await relay.rate("t1", id=first, wait="respond-async")
        await literature.wait_for_posts(1)
        answered = await relay.rate("t2", id=second, wait="respond-async")
        assert answered.json["state"] == "pending"
        hold.set()
        await relay.until(first, "saved")
        await relay.until(second, "saved")


async def test_a_rating_beside_what_was_claimed_ahead_is_picked_up_without_a_poll(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Two slots, a poll of an hour. What was claimed ahead has taken them, and nothing more was due: who rates now
    finds none free, and the rating is sent when one is."""  # noqa: D209
    monkeypatch.setattr(courier, "AHEAD_SECONDS", 60)
    async with small_world(tmp_path, database_url, in_flight=2, poll=3600) as (relay, specialists):
        literature = specialists["literature"]
        acknowledge = literature.behave
        gates = {f"t{n}": asyncio.Event() for n in range(6)}

        async def held(received):  # noqa: ANN001
            await gates[received.json["taskId"]].wait()
            return await acknowledge(received)

        async def rate(task: str) -> str:
            await relay.record(task, answerId=task)
            return str((await relay.rate(task, wait="respond-async")).json["id"])

        async def let_go(task: str) -> None:
            gates[task].set()
            await relay.until(submissions[task], "saved")

        literature.behave = held
        submissions = {"t0": await rate("t0")}
        await let_go("t0")
        for task in ("t1", "t2", "t3", "t4"):
            submissions[task] = await rate(task)
        await let_go("t1")
        await literature.wait_for_posts(4)
        await let_go("t2")
        await literature.wait_for_posts(5)
        submissions["t5"] = await rate("t5")
        for task in ("t3", "t4", "t5"):
            await let_go(task)


async def test_a_backlog_is_drained_without_a_poll(tmp_path: Path, database_url: str):
    """Sixty ratings that wait, two at a time, a poll of an hour: each claim is followed by the next until none is left,
    and never are more than two with the specialist at once."""  # noqa: D209
    settings = {"in_flight": 2, "poll": 3600, "schedule": '["0s", "1h"]'}
    async with small_world(tmp_path, database_url, **settings) as (relay, specialists):
        literature = specialists["literature"]
        acknowledge = literature.behave
        at_once: list[int] = []
        under_way = 0
        gate = asyncio.Event()

        async def counted(received):  # noqa: ANN001
            nonlocal under_way
            under_way += 1
            at_once.append(under_way)
            await gate.wait()
            try:
                return await acknowledge(received)
            finally:
                under_way -= 1

        literature.behave = counted
        submissions = [new_id() for _ in range(60)]
        for n, submission in enumerate(submissions):
            await relay.record(f"t{n}", answerId=f"a{n}")
            assert (await relay.rate(f"t{n}", id=submission, wait="respond-async")).status == 202
        gate.set()
        for submission in submissions:
            await relay.until(submission, "saved")
        assert max(at_once) <= 2


async def test_what_was_claimed_ahead_is_given_back_when_the_specialist_asks_for_a_pause(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Two at a time, and seven claimed, when the specialist begins to answer 429 with an hour to wait: no more
    reach it than are under way (and two more, where a claim was just made), and the rest waits untried, the schedule
    where it was."""  # noqa: D209
    monkeypatch.setattr(courier, "AHEAD_SECONDS", 60)  # on the slowest machine a specialist counts as quick
    async with small_world(tmp_path, database_url, in_flight=2, poll=3600) as (relay, specialists):
        literature = specialists["literature"]
        acknowledge = literature.behave
        gate = asyncio.Event()
        refused: list[str] = []

        async def tired(received):  # noqa: ANN001
            await gate.wait()
            (sending,) = await relay.rows("SELECT count(*) AS n FROM deliveries WHERE state = 'sending'")
            if not refused and sending["n"] < 7:
                return await acknowledge(received)
            refused.append(received.json["id"])
            return await answering(429, {}, headers={"Retry-After": "3600"})(received)

        literature.behave = tired
        for n in range(60):
            await relay.record(f"t{n}", answerId=f"a{n}")
            await relay.rate(f"t{n}", wait="respond-async")
        gate.set()
        await literature.wait_for_posts(3)
        while await relay.rows("SELECT 1 FROM deliveries WHERE state = 'sending'"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert 1 <= len(refused) <= 4
        waiting = await relay.rows(
            "SELECT attempt_count AS attempts, schedule_position AS position FROM deliveries WHERE state = 'pending'"
        )
        tried = [row for row in waiting if row["attempts"]]
        assert len(tried) == len(refused)
        assert all(row["position"] == 0 for row in waiting if not row["attempts"])


async def test_what_a_person_asks_for_joins_those_that_wait(tmp_path: Path, database_url: str):
    """Every slot is taken, as in a backlog that does not end: a repeat is claimed all the same, and goes out as soon as
    its turn has come, before anybody polls."""  # noqa: D209
    settings = {"in_flight": 1, "poll": 3600}
    async with small_world(tmp_path, database_url, **settings) as (relay, specialists):
        held = Held()
        specialists["literature"].behave = held
        first, second = new_id(), new_id()
        for task, submission in (("t1", first), ("t2", second)):
            await relay.record(task)
            await relay.rate(task, id=submission, wait="respond-async")
        await specialists["literature"].wait_for_posts(1)
        assert (await relay.show(second)).json["state"] == "pending"
        assert (await relay.rate("t2", id=second, wait="respond-async")).json["state"] == "sending"
        assert len(specialists["literature"].posts) == 1
        held.let_go()
        await relay.until(second, "saved")
