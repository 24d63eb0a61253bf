"""An owner who sends, retries and reads while they are erased, over the network, on each engine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.identity.model import OwnerTuple
from relay.retention.owners import OwnerErasure
from relay.storage.engine import Database
from tests.support.gateway import Answered, Gateway, new_id, small_world
from tests.support.specialist import Held, Specialist, answering

World = tuple[Gateway, Specialist]


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    async with small_world(tmp_path, database_url, agents=("literature",)) as (relay, specialists):
        yield relay, specialists["literature"]


async def erase(relay: Gateway) -> None:
    """Erase alice as the command does: from another process, on a connection of its own."""
    alice = await relay.relay.owners.find(OwnerTuple("human", relay.issuer.url, "workbench", "alice"))
    assert alice is not None
    db = Database.open(relay.relay.db.url, pool_size=1)
    try:
        erasure = await OwnerErasure.find(db, alice.key)
        assert erasure is not None
        await erasure.run("cli:root", "request 7")
    finally:
        await db.close()


def is_410(answered: Answered) -> bool:
    return answered.status == 410 and answered.code == "submission_erased"


async def test_repeats_at_the_same_instant(world: World):
    """Each is answered with the stored rating or with 410: no second row, no error, and nothing sent afterwards."""
    relay, literature = world
    literature.behave = answering(503)
    await relay.record("t1")
    submission = new_id()
    await relay.rate("t1", id=submission, comment="mine", wait="respond-async")
    erased = asyncio.Event()
    answers: list[Answered] = []

    async def repeat() -> None:
        while not erased.is_set():
            answers.append(await relay.rate("t1", id=submission, comment="mine", wait="respond-async"))

    async def erasing() -> int:
        await erase(relay)
        erased.set()
        return len(literature.posts)

    posts, *_ = await asyncio.gather(erasing(), *(repeat() for _ in range(8)))
    answers += [await relay.rate("t1", id=submission, comment="mine") for _ in range(3)]
    # The same UUID with another payload, and the same task under another UUID.
    answers += [await relay.rate("t1", id=submission, rating="down"), await relay.rate("t1")]
    assert all(is_410(answered) for answered in answers[-5:])
    assert {a.status for a in answers if not is_410(a)} <= {200, 202}
    [row] = await relay.rows(
        "SELECT s.id, s.rating, s.comment, s.payload, d.state FROM submissions s"
        " JOIN deliveries d ON d.submission = s.seq"
    )
    assert row == {"id": submission, "rating": None, "comment": None, "payload": None, "state": "abandoned"}
    await relay.relay.worker.work_once()
    assert len(literature.posts) == posts


async def test_retries_at_the_same_instant(world: World):
    """A retry reopens what is still there, or is answered with 410; after the erasure nothing goes out."""
    relay, literature = world
    literature.behave = answering(422)
    submissions = [new_id() for _ in range(4)]
    for n, submission in enumerate(submissions):
        await relay.record(f"t{n}")
        await relay.rate(f"t{n}", id=submission, wait="respond-async")
        await relay.until(submission, "rejected")
    erased = asyncio.Event()
    answers: list[Answered] = []

    async def retry(submission: str) -> None:
        while not erased.is_set():
            path = f"/api/feedback/{submission}/retry"
            headers = {"Prefer": "respond-async"}
            answers.append(await relay.call("POST", path, token=relay.token(), headers=headers))

    async def erasing() -> int:
        await erase(relay)
        erased.set()
        return len(literature.posts)

    posts, *_ = await asyncio.gather(erasing(), *(retry(submission) for submission in submissions * 2))
    # 409: given up already, and not erased yet.
    assert {a.status for a in answers} <= {200, 202, 409, 410}
    assert {a.code for a in answers if a.status in {409, 410}} <= {"not_retryable", "submission_erased"}
    rows = await relay.rows("SELECT s.payload, d.state FROM submissions s JOIN deliveries d ON d.submission = s.seq")
    assert [row["payload"] for row in rows] == [None] * 4
    assert {row["state"] for row in rows} <= {"rejected", "abandoned"}
    await relay.relay.worker.work_once()
    assert len(literature.posts) == posts


async def test_who_waits_for_an_answer_is_told(world: World):
    """A rating whose attempt is under way while its owner is erased: 410 to who waited, saved at the specialist."""
    relay, literature = world
    literature.behave = held = Held()
    await relay.record("t1")
    submission = new_id()
    rating = asyncio.ensure_future(relay.rate("t1", id=submission))
    await literature.wait_for_posts(1)
    erasing = asyncio.ensure_future(erase(relay))
    await relay.until(submission, "abandoned")
    held.let_go()
    await erasing
    answered = await rating
    # Who is answered between the acknowledgement and the erasure is told that it was saved, which it was.
    assert is_410(answered) or answered.status == 201
    assert (await relay.show(submission)).json["saved"] is True
    assert (await relay.show(submission)).json["rating"] is None


async def test_tombstones_answer_and_the_owner_may_come_back(world: World):
    """Reads show that it was erased and nothing of what it said; what the owner rates from then on is theirs again."""
    relay, _ = world
    await relay.record("t1")
    submission = new_id()
    await relay.rate("t1", id=submission, comment="mine")
    before = (await relay.rows("SELECT owner_key FROM owners WHERE kind = 'human'"))[0]["owner_key"]
    await erase(relay)
    shown = (await relay.show(submission)).json
    assert (shown["rating"], shown["comment"], shown["state"]) == (None, None, "saved")
    assert "erasedAt" in shown
    [listed] = (await relay.call("GET", "/api/feedback", token=relay.token())).json["items"]
    assert listed == shown
    answer = (await relay.call("GET", "/api/answers/a1/targets", token=relay.token())).json
    [target] = answer["targets"]
    assert (target["rateable"], target["reason"]) == (False, "submission_erased")
    assert target["submission"] == shown
    assert is_410(await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token()))
    await relay.record("t2")
    assert (await relay.rate("t2", comment="new")).status == 201
    owners = await relay.rows("SELECT owner_key FROM owners WHERE kind = 'human'")
    assert [row["owner_key"] for row in owners] == [before]
    comments = [
        item["comment"] for item in (await relay.call("GET", "/api/feedback", token=relay.token())).json["items"]
    ]
    assert comments == ["new", None]
