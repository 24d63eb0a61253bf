"""Faults that forwarders really had, one by one, against a specialist that misbehaves on purpose."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from relay.clock import SystemClock
from tests.support.gateway import Gateway, new_id, small_world
from tests.support.specialist import Received, Specialist, acknowledge, answering

World = tuple[Gateway, dict[str, Specialist]]


@pytest.fixture
async def world(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[World]:
    """SQLite is enough here: what an answer means does not depend on the engine."""
    async with small_world(tmp_path, sqlite_database_url, schedule='["0s", "1h", "1h"]') as running:
        yield running


@pytest.fixture
def relay(world: World) -> Gateway:
    return world[0]


@pytest.fixture
def literature(world: World) -> Specialist:
    return world[1]["literature"]


def echo(status: int, **members: Any):
    """An answer that carries the submission's own id, with other members."""

    async def behave(received: Received) -> web.StreamResponse:
        return web.json_response({"id": received.json["id"], **members}, status=status)

    return behave


async def raw_201(received: Received) -> web.StreamResponse:
    """A matching acknowledgement with the members twice."""
    submission = received.json["id"]
    text = f'{{"id":"{new_id()}","saved":true,"id":"{submission}"}}'
    return web.Response(status=201, text=text, content_type="application/json")


async def oversized(received: Received) -> web.StreamResponse:
    """A matching acknowledgement with 200 KB behind it."""
    text = json.dumps({"id": received.json["id"], "saved": True, "padding": "x" * 200_000})
    return web.Response(status=201, text=text, content_type="application/json")


async def bomb(_received: Received) -> web.StreamResponse:
    """20 MB of zeros, compressed."""
    import gzip  # noqa: PLC0415

    return web.Response(status=201, body=gzip.compress(b"0" * 20_000_000), headers={"Content-Encoding": "gzip"})


def http_date(*, seconds: int) -> str:
    """So far from now."""
    moment = datetime.fromtimestamp(SystemClock().unix(), UTC) + timedelta(seconds=seconds)
    return format_datetime(moment, usegmt=True)


NOT_SAVED = {
    "200 that says saved": (echo(200, saved=True), "pending"),
    "202": (echo(202, saved=True), "pending"),
    "201 with another id": (answering(201, {"id": new_id(), "saved": True}), "pending"),
    "201 saved 1": (echo(201, saved=1), "pending"),
    "201 saved as text": (echo(201, saved="true"), "pending"),
    "201 saved false": (echo(201, saved=False), "pending"),
    "201 without saved": (echo(201), "pending"),
    "201 empty": (answering(201, b""), "pending"),
    "201 HTML": (answering(201, b"<html>ok</html>"), "pending"),
    "201 array": (answering(201, [{"saved": True}]), "pending"),
    "201 with duplicate keys": (raw_201, "pending"),
    "201 cut off at the cap": (oversized, "pending"),
    "201 compressed bomb": (bomb, "pending"),
    "400": (answering(400, {}), "rejected"),
    "403": (answering(403, {}), "rejected"),
    "405": (answering(405, {}), "rejected"),
    "410": (answering(410, {}), "rejected"),
    "413": (answering(413, {}), "rejected"),
    "414": (answering(414, {}), "rejected"),
    "415": (answering(415, {}), "rejected"),
    "422": (answering(422, {}), "rejected"),
    "401": (answering(401, {}), "pending"),
    "404": (answering(404, {}), "pending"),
    "408": (answering(408, {}), "pending"),
    "418": (answering(418, {}), "pending"),
    "425": (answering(425, {}), "pending"),
    "429": (answering(429, {}), "pending"),
    "500": (answering(500, {}), "pending"),
    "503": (answering(503, {}), "pending"),
}


@pytest.mark.parametrize(("behave", "state"), NOT_SAVED.values(), ids=NOT_SAVED)
async def test_only_a_matching_201_saves(relay: Gateway, literature: Specialist, behave: Any, state: str):
    """Anything else does not, and the reason is in the attempt."""
    literature.behave = behave
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.status, answered.json["state"], answered.json["saved"]) == (202, state, False)
    assert answered.json["lastAttempt"]["reason"]
    assert answered.json["lastAttempt"]["outcome"] in {"retry", "rejected"}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(relay: Gateway, literature: Specialist, world: World, status: int):
    """Nothing reaches the second place, not even where it would have answered 201."""
    other = world[1]["chemistry"]
    literature.behave = answering(status, {}, headers={"Location": f"{other.origin}/api/feedback"})
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.json["state"], answered.json["lastAttempt"]["reason"]) == ("pending", "redirect")
    assert other.received == []
    assert len(literature.posts) == 1


async def test_a_dripping_answer_meets_the_total_deadline(tmp_path: Path, sqlite_database_url: str):
    """201, then a byte now and then: the deadline covers the body, and the attempt is ambiguous."""
    async with small_world(tmp_path, sqlite_database_url, deadline=1, lease=10) as (relay, specialists):
        stop = asyncio.Event()

        async def drip(received: Received, request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(status=201, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            for byte in json.dumps({"id": received.json["id"], "saved": True}).encode():
                await response.write(bytes([byte]))
                try:
                    await asyncio.wait_for(stop.wait(), 0.2)
                except TimeoutError:
                    continue
                break
            return response

        specialists["literature"].raw = drip
        await relay.record("t1")
        answered = await relay.rate("t1")
        stop.set()
        attempt = answered.json["lastAttempt"]
        assert (answered.json["saved"], attempt["reason"], attempt["ambiguous"]) == (False, "deadline_exceeded", True)


async def test_a_host_that_is_gone_is_retried(relay: Gateway, literature: Specialist):
    """Nobody listens: pending, the attempt logged as certainly not received."""
    await literature.stop()
    await relay.record("t1")
    answered = await relay.rate("t1")
    attempt = answered.json["lastAttempt"]
    assert (answered.json["state"], attempt["reason"], attempt["ambiguous"]) == ("pending", "connect_failed", False)


async def test_a_409_task_not_finished_is_retried(relay: Gateway, literature: Specialist):
    """The specialist's own run has not ended there yet: no conflict."""
    literature.behave = answering(409, {"code": "task_not_finished"})
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.json["state"], answered.json["lastAttempt"]["reason"]) == ("pending", "task_not_finished")


@pytest.mark.parametrize(
    ("listed", "state"),
    [
        ("different", "conflict"),
        ("same", "pending"),
        ("absent", "pending"),
        ("window", "pending"),
        ("unreadable", "pending"),
    ],
)
async def test_a_409_is_read_back(relay: Gateway, literature: Specialist, listed: str, state: str):
    """Only the same id with other content is a proven conflict; the same content is retried, since only a 201 saves."""
    submission = new_id()
    row = {"id": submission, "taskId": "t1", "rating": "up", "owner": "o", "resolution": None, "createdAt": "x"}
    others = [{**row, "id": new_id()} for _ in range(100)]
    literature.listing = {
        "different": [{**row, "rating": "down"}],
        "same": [row],
        "absent": others[:5],
        "window": others,
        "unreadable": {"rows": "none"},
    }[listed]
    literature.behave = answering(409, {"error": "conflict"})
    await relay.record("t1")
    answered = await relay.rate("t1", id=submission)
    assert (answered.status, answered.json["state"]) == (202, state)
    assert [r.method for r in literature.received] == ["POST", "GET"]


async def test_a_404_is_a_refusal_after_ten_minutes(relay: Gateway, literature: Specialist):
    """A specialist may not have ingested its own run yet; later it will not."""
    literature.behave = answering(404, {})
    await relay.record("t1")
    submission = new_id()
    assert (await relay.rate("t1", id=submission)).json["state"] == "pending"
    await relay.change(
        "UPDATE deliveries SET window_started_at = window_started_at - 600001, due_at = 0, not_before = 0"
    )
    assert (await relay.until(submission, "rejected"))["lastAttempt"]["status"] == 404


async def test_a_retry_does_not_overtake_a_floor(relay: Gateway, literature: Specialist):
    """A refusal that asked for time: the owner's retry opens a new window, and nothing goes out before that time."""
    literature.behave = answering(422, {}, headers={"Retry-After": "1000"})
    submission = new_id()
    await relay.record("t1")
    assert (await relay.rate("t1", id=submission)).json["state"] == "rejected"
    retried = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    assert (retried.status, retried.json["state"]) == (202, "pending")
    await relay.relay.worker.work_once()
    row = (await relay.rows("SELECT due_at - state_since AS wait, attempt_count FROM deliveries"))[0]
    assert row["wait"] > 900_000
    assert row["attempt_count"] == 1
    assert len(literature.received) == 1


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("60", 60, 67),
        ("in 500 s", 440, 551),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 1),
        ("1e3", 0, 1),
        ("1000000000000", 86_400, 95_041),
    ],
    ids=["seconds", "date", "past", "nonsense", "huge"],
)
async def test_retry_after_is_a_floor(relay: Gateway, literature: Specialist, header: str, least: int, most: int):
    """ASCII seconds or an HTTP date, capped; the schedule's own wait (an hour) stands where it is longer."""
    await relay.record("t1")
    if header == "in 500 s":  # from now, not from when the tests were collected
        moment = datetime.fromtimestamp(SystemClock().unix(), UTC) + timedelta(seconds=500)
        header = format_datetime(moment, usegmt=True)
    literature.behave = answering(429, {}, headers={"Retry-After": header})
    await relay.rate("t1")
    row = (await relay.rows("SELECT due_at - state_since AS wait, not_before - state_since AS floor FROM deliveries"))[
        0
    ]
    assert row["wait"] >= max(3600, least) * 1000
    floor = max(0, row["floor"]) / 1000
    assert least <= floor + 1
    assert floor <= most


async def test_an_owner_never_overrides_retry_after(relay: Gateway, literature: Specialist):
    """A repeat and a retry before the floor send nothing, and tell when the next attempt is."""
    literature.behave = answering(429, {}, headers={"Retry-After": "60"})
    await relay.record("t1")
    submission = new_id()
    first = await relay.rate("t1", id=submission)
    repeat = await relay.rate("t1", id=submission)
    retry = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    for answered in (repeat, retry):
        assert answered.status == 202
        assert answered.json["nextAttemptAt"] == first.json["nextAttemptAt"]
    assert len(literature.posts) == 1


async def test_a_repeat_of_a_waiting_one_is_tried_now(relay: Gateway, literature: Specialist):
    """The schedule says in an hour; the same request again has it tried at once, with the same bytes."""
    literature.behave = answering(500, {})
    await relay.record("t1")
    submission = new_id()
    assert (await relay.rate("t1", id=submission)).json["state"] == "pending"
    literature.behave = acknowledge
    assert (await relay.rate("t1", id=submission)).status == 201
    assert len(literature.posts) == 2
    assert len({r.body for r in literature.posts}) == 1
    causes = await relay.rows("SELECT cause, number FROM attempts ORDER BY id")
    assert [(c["cause"], c["number"]) for c in causes] == [("accept", 1), ("repeat", 2)]


async def test_a_stalled_agent_does_not_slow_another(world: World):
    """One destination that never answers: every rating for the other is saved meanwhile, and no connection to the
    database is held by those that wait."""  # noqa: D209
    relay, specialists = world
    hold = asyncio.Event()

    async def stall(received: Received) -> web.StreamResponse:
        await hold.wait()
        return await acknowledge(received)

    specialists["literature"].behave = stall
    for n in range(20):
        await relay.record(f"slow{n}")
        await relay.record(f"fast{n}", agent="chemistry")
    slow = await asyncio.gather(*(relay.rate(f"slow{n}", wait="respond-async") for n in range(20)))
    assert {a.status for a in slow} == {202}
    await specialists["literature"].wait_for_posts(16)
    fast = await asyncio.gather(*(relay.rate(f"fast{n}") for n in range(20)))
    assert {a.status for a in fast} == {201}
    assert len(specialists["literature"].posts) == 16  # in flight per agent
    hold.set()
    for answered in slow:
        await relay.until(answered.json["id"], "saved")


async def test_an_excerpt_holds_no_secret(relay: Gateway, literature: Specialist):
    """What a specialist says is kept for operators, bounded and redacted."""
    literature.behave = answering(
        500, b'{"error": "token sk-abcdefghijklmnopqrstuvwxyz012345 refused", "x": "' + b"y" * 5000
    )
    await relay.record("t1")
    await relay.rate("t1")
    excerpt = (await relay.rows("SELECT excerpt FROM attempts"))[0]["excerpt"]
    assert "sk-abcdef" not in excerpt
    assert "[redacted]" in excerpt
    assert len(excerpt) <= 600


async def test_a_401_gets_one_fresh_token_within_the_attempt(relay: Gateway, literature: Specialist):
    """The first answer is 401, the second is not asked of the schedule: one attempt, two requests, the same bytes."""

    async def once(_received: Received) -> web.StreamResponse:
        literature.behave = acknowledge
        return web.json_response({}, status=401)

    literature.behave = once
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.status, answered.json["lastAttempt"]["number"]) == (201, 1)
    assert len(literature.posts) == 2
    assert len({r.body for r in literature.posts}) == 1


async def test_a_401_that_stays_is_left_to_the_schedule(relay: Gateway, literature: Specialist):
    """Two requests, no more, and the reason is there to read."""
    literature.behave = answering(401, {})
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.json["state"], answered.json["lastAttempt"]["reason"]) == ("pending", "unauthorized")
    assert len(literature.posts) == 2


async def test_a_credential_that_cannot_be_had_parks_the_delivery(
    relay: Gateway, literature: Specialist, tmp_path: Path
):
    """Nothing is sent and nothing lost: the reason stands in the last attempt, and later the same rating is saved."""
    secret = tmp_path / "bearer"
    kept = secret.read_text()
    secret.unlink()
    await relay.record("t1")
    submission = new_id()
    answered = await relay.rate("t1", id=submission)
    attempt = answered.json["lastAttempt"]
    assert (answered.json["state"], attempt["reason"], attempt["ambiguous"]) == (
        "pending",
        "token_file_unreadable",
        False,
    )
    assert literature.posts == []
    secret.write_text(kept)
    secret.chmod(0o600)
    await relay.change("UPDATE deliveries SET due_at = 0, owner_attempt_at = 0")
    await relay.until(submission, "saved")
