"""Reading back: what a specialist's list shows, what follows from it, and when nothing is asked. On both engines."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import text

from registry.model import AgentId
from relay.delivery.reconcile.model import Check, Checked, Finding, Reference
from relay.delivery.reconcile.reconciler import IN_FLIGHT_PER_AGENT
from relay.delivery.reconcile.store import Checks
from relay.operators.agents import Agents
from relay.storage.engine import Database
from tests.support.gateway import Gateway, new_id, small_world
from tests.support.logs import logging_to_memory
from tests.support.reconciling import check, make_due, reconciler
from tests.support.specialist import Received, Specialist, acknowledge, answering

World = tuple[Gateway, dict[str, Specialist]]
LITERATURE = AgentId("literature")
MINUTE = 60_000
FAR = 9_000_000_000_000
"""A moment after all tests."""


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    """Nothing works in the background: a test says when something is checked."""
    settings = {"schedule": '["0s", "1h", "1h"]', "reconcile": '["10m", "1h", "2h"]'}
    async with small_world(tmp_path, database_url, worker=False, **settings) as running:
        yield running


@pytest.fixture
def relay(world: World) -> Gateway:
    return world[0]


@pytest.fixture
def literature(world: World) -> Specialist:
    return world[1]["literature"]


def kept(submission: str, **members: Any) -> dict[str, Any]:
    """A row as a specialist lists it."""
    return {"id": submission, "taskId": "t1", "rating": "up", "owner": "o", "resolution": None, **members}


def others(count: int) -> list[dict[str, Any]]:
    return [kept(new_id(), taskId=f"other-{n}") for n in range(count)]


async def saved(relay: Gateway, task: str = "t1", **fields: Any) -> str:
    """A rating that was acknowledged."""
    await relay.record(task, sub=fields.get("sub", "alice"))
    answered = await relay.rate(task, **fields)
    assert answered.status == 201
    return str(answered.json["id"])


async def ambiguous(relay: Gateway, literature: Specialist) -> str:
    """A rating whose only attempt ended in a 500: nobody knows whether the specialist kept it."""
    literature.behave = answering(500, {})
    await relay.record("t1")
    answered = await relay.rate("t1")
    assert (answered.json["state"], answered.json["lastAttempt"]["ambiguous"]) == ("pending", True)
    return str(answered.json["id"])


async def row(relay: Gateway) -> dict[str, Any]:
    [found] = await relay.rows("SELECT * FROM deliveries")
    return found


async def told(relay: Gateway) -> int:
    """How many events there are to be told."""
    return len(await relay.rows("SELECT seq FROM events"))


def counted(relay: Gateway, result: str, agent: str = "literature") -> float:
    value = relay.relay.metrics.registry.get_sample_value(
        "feedback_relay_checks_total", {"agent": agent, "result": result}
    )
    return value or 0.0


# What was acknowledged.


@pytest.mark.parametrize(
    ("listing", "evidence"),
    [
        ("same", "confirmed"),
        ("id in capitals", "confirmed"),
        ("in an object", "confirmed"),
        ("another task", "mismatch"),
        ("another rating", "mismatch"),
        ("another comment", "mismatch"),
        ("nothing", "missing"),
        ("99 others", "missing"),
        ("100 others", "out_of_window"),
    ],
)
async def test_a_saved_one_is_looked_up(relay: Gateway, literature: Specialist, listing: str, evidence: str):
    """Confirmed, missing, mismatch or out of the window: shown with its time in every read, told once, still saved."""
    submission = await saved(relay, comment="fine")
    ours = kept(submission, comment="fine")
    literature.listing = {
        "same": [*others(3), ours],
        "id in capitals": [{**ours, "id": submission.upper()}],
        "in an object": {"items": [ours], "total": 1},
        "another task": [{**ours, "taskId": "t2"}],
        "another rating": [{**ours, "rating": "down"}],
        "another comment": [{**ours, "comment": "bad"}],
        "nothing": [],
        "99 others": others(99),
        "100 others": others(100),
    }[listing]
    before = await told(relay)
    assert await check(relay.relay) == 1
    shown = (await relay.show(submission)).json
    assert (shown["state"], shown["saved"], shown["evidence"]) == ("saved", True, evidence)
    assert shown["evidenceAt"] >= shown["savedAt"]
    [listed] = (await relay.call("GET", "/api/feedback", token=relay.token())).json["items"]
    [target] = (await relay.call("GET", "/api/answers/a1/targets", token=relay.token())).json["targets"]
    repeat = await relay.rate("t1", id=submission, comment="fine")
    assert listed == target["submission"] == repeat.json == shown
    assert await told(relay) == before + 1
    assert counted(relay, evidence) == 1
    assert len(literature.posts) == 1


async def test_before_the_first_check_nothing_is_claimed_to_be_known(relay: Gateway):
    """Unchecked, without a time; the first check is planned with jitter that only adds."""
    submission = await saved(relay)
    shown = (await relay.show(submission)).json
    assert (shown["evidence"], shown["evidenceAt"], shown["resolution"]) == ("unchecked", None, None)
    stored = await row(relay)
    assert 10 * MINUTE <= stored["check_due_at"] - stored["saved_at"] <= 11 * MINUTE
    assert await reconciler(relay.relay).claim() == []


@pytest.mark.parametrize(
    "answer",
    [
        answering(200, b"<html>"),
        answering(200, {"a": [], "b": []}),
        answering(200, [{"taskId": "t1"}]),
        answering(404, []),
        answering(403, {}),
        answering(500, {}),
        answering(302, {}, headers={"Location": "https://elsewhere.example.org"}),
    ],
    ids=["html", "two arrays", "a row without an id", "404", "403", "500", "redirect"],
)
async def test_an_answer_that_cannot_be_read_changes_nothing(relay: Gateway, literature: Specialist, answer: Any):
    """Evidence stays unchecked and no event is written; the check is made again by its schedule."""
    submission = await saved(relay)
    literature.lists = answer
    before = await told(relay)
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["evidence"], shown["evidenceAt"]) == ("unchecked", None)
    assert await told(relay) == before
    assert counted(relay, "unreadable") + counted(relay, "failed") == 1
    literature.lists, literature.listing = None, [kept(submission)]
    await check(relay.relay)
    assert (await relay.show(submission)).json["evidence"] == "confirmed"


async def test_nobody_there_changes_nothing(relay: Gateway, literature: Specialist):
    """A specialist that cannot be reached is asked again later; what was confirmed stays so."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await check(relay.relay)
    confirmed = (await relay.show(submission)).json
    await literature.stop()
    await check(relay.relay)
    assert (await relay.show(submission)).json == confirmed
    assert (await row(relay))["checks"] == 2
    assert counted(relay, "failed") == 1


@pytest.mark.parametrize(("size", "evidence"), [("within", "confirmed"), ("beyond", "unchecked")])
async def test_a_list_may_have_two_mebibytes(relay: Gateway, literature: Specialist, size: str, evidence: str):
    """A list that is cut off at the cap proves nothing, even where what came would have shown the row."""
    submission = await saved(relay)
    bulk = 2 * 1024 * 1024 - 1000 if size == "within" else 2 * 1024 * 1024
    body = json.dumps([kept(submission), {**kept(new_id()), "padding": "x" * bulk}]).encode()
    literature.lists = answering(200, body)
    await check(relay.relay)
    assert (await relay.show(submission)).json["evidence"] == evidence


async def test_the_schedule_of_checks_has_an_end(relay: Gateway, literature: Specialist):
    """N entries are N checks, each wait at least as long as configured; after the last none is planned."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    for count, wait in ((1, 60 * MINUTE), (2, 120 * MINUTE)):
        await check(relay.relay)
        stored = await row(relay)
        assert stored["checks"] == count
        assert wait <= stored["check_due_at"] - stored["evidence_at"] <= 1.1 * wait
    await check(relay.relay)
    assert (await row(relay))["check_due_at"] is None
    assert await check(relay.relay) == 0
    assert len(literature.gets) == 3


async def test_what_is_out_of_the_window_is_not_looked_for_again(relay: Gateway, literature: Specialist):
    """A list never reaches further back than before."""
    await saved(relay)
    literature.listing = others(100)
    await check(relay.relay)
    assert (await row(relay))["check_due_at"] is None


async def test_what_was_confirmed_stays_so_when_it_leaves_the_window(relay: Gateway, literature: Specialist):
    """A hundred newer ones say nothing against it."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await check(relay.relay)
    confirmed = (await relay.show(submission)).json
    literature.listing = others(100)
    await check(relay.relay)
    assert (await relay.show(submission)).json == confirmed


@pytest.mark.parametrize(("listing", "evidence"), [("gone", "missing"), ("changed", "mismatch")])
async def test_confirmed_never_goes_back_silently(relay: Gateway, literature: Specialist, listing: str, evidence: str):
    """What a specialist no longer keeps as it was is told: an event, and a warning that quotes nobody."""
    submission = await saved(relay, comment="between us")
    ours = kept(submission, comment="between us")
    literature.listing = [ours]
    await check(relay.relay)
    before = await told(relay)
    literature.listing = {"gone": [], "changed": [{**ours, "rating": "down"}]}[listing]
    with logging_to_memory() as log:
        await check(relay.relay)
    assert (await relay.show(submission)).json["evidence"] == evidence
    assert await told(relay) == before + 1
    [line] = log.events("evidence")
    assert (line["level"], line["before"], line["evidence"]) == ("warning", "confirmed", evidence)
    assert "between us" not in log.text
    assert "alice" not in log.text


async def test_the_same_evidence_again_is_no_news(relay: Gateway, literature: Specialist):
    """Its time moves on; nobody is told."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await check(relay.relay)
    before, events = await row(relay), await told(relay)
    await check(relay.relay)
    after = await row(relay)
    assert await told(relay) == events
    assert after["evidence_at"] >= before["evidence_at"]
    assert after["version"] == before["version"]


# What was ambiguous.


async def test_an_ambiguous_one_that_is_there_is_tried_at_once(relay: Gateway, literature: Specialist):
    """Only a 201 saves: the next attempt, an hour away by the schedule, is made now, with the same bytes."""
    submission = await ambiguous(relay, literature)
    literature.listing, literature.behave = [kept(submission)], acknowledge
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["state"], shown["evidence"]) == ("pending", "confirmed")
    assert shown["nextAttemptAt"] <= shown["evidenceAt"]
    await relay.relay.worker.work_once()
    assert (await relay.until(submission, "saved"))["lastAttempt"]["cause"] == "schedule"
    first, second = literature.posts
    assert first.body == second.body


async def test_it_is_brought_forward_once(relay: Gateway, literature: Specialist):
    """A specialist that keeps a rating and answers 500 all the same does not use up its schedule in minutes."""
    submission = await ambiguous(relay, literature)
    literature.listing = [kept(submission)]
    await check(relay.relay)
    await relay.relay.worker.work_once()
    await literature.wait_for_posts(2)
    await relay.until(submission, "pending")
    while (await row(relay))["checks"] != 0:  # noqa: ASYNC110 - the settle of the second attempt begins them anew
        await asyncio.sleep(0.01)
    due = (await row(relay))["due_at"]
    await check(relay.relay)
    assert (await row(relay))["due_at"] == due


async def test_a_floor_stands(relay: Gateway, literature: Specialist):
    """Brought forward, but never to before what the specialist asked to wait."""
    submission = await ambiguous(relay, literature)
    later = "UPDATE deliveries SET not_before = {now} + 600000"
    async with relay.relay.db.write() as connection:
        await connection.execute(relay.relay.db.sql(later))
    literature.listing = [kept(submission)]
    await check(relay.relay)
    stored = await row(relay)
    assert (stored["evidence"], stored["due_at"]) == ("confirmed", stored["not_before"])


@pytest.mark.parametrize(
    "members", [{"taskId": "t2"}, {"rating": "down"}, {"comment": "x"}], ids=["task", "rating", "comment"]
)
async def test_an_ambiguous_one_with_other_content_is_a_conflict(
    relay: Gateway, literature: Specialist, members: dict[str, str]
):
    """No attempt could ever be acknowledged. The timeline says who found out, and nothing is sent any more."""
    submission = await ambiguous(relay, literature)
    literature.listing = [kept(submission, **members)]
    before = await told(relay)
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["state"], shown["evidence"], shown["nextAttemptAt"]) == ("conflict", "mismatch", None)
    attempt = shown["lastAttempt"]
    assert (attempt["number"], attempt["cause"], attempt["outcome"], attempt["reason"], attempt["status"]) == (
        2, "reconcile", "conflict", "read_back_differs", 200,
    )  # fmt: skip
    assert await told(relay) == before + 1
    assert (await row(relay))["check_due_at"] is None
    assert len(literature.posts) == 1


async def test_an_ambiguous_one_that_is_not_there_goes_on_as_before(relay: Gateway, literature: Specialist):
    """When it was looked for is noted, and nothing else: the schedule stands."""
    submission = await ambiguous(relay, literature)
    before, events = (await relay.show(submission)).json, await told(relay)
    await check(relay.relay)
    after = (await relay.show(submission)).json
    assert after.pop("evidenceAt") is not None
    assert before.pop("evidenceAt") is None
    assert after == before
    assert await told(relay) == events
    assert counted(relay, "absent") == 1


async def test_an_ambiguous_one_beyond_the_window(relay: Gateway, literature: Specialist):
    """Nobody can tell: it says so, and the schedule stands."""
    submission = await ambiguous(relay, literature)
    due = (await relay.show(submission)).json["nextAttemptAt"]
    literature.listing = others(100)
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["state"], shown["evidence"], shown["nextAttemptAt"]) == ("pending", "out_of_window", due)


async def test_a_refusal_is_not_looked_for(relay: Gateway, literature: Specialist):
    """Who says no keeps nothing: only what was acknowledged or is ambiguous is read back."""
    literature.behave = answering(422, {})
    await relay.record("t1")
    assert (await relay.rate("t1")).json["state"] == "rejected"
    assert (await row(relay))["check_due_at"] is None


async def test_what_was_settled_meanwhile_is_judged_anew(relay: Gateway, literature: Specialist):
    """Looked up while it waited, saved before the list had come: what the list said of it is not written."""
    submission = await ambiguous(relay, literature)
    await make_due(relay.relay)
    [checks] = await reconciler(relay.relay).claim()
    literature.behave = acknowledge
    await relay.rate("t1", id=submission)
    await reconciler(relay.relay).check(checks)
    stored = await row(relay)
    assert (stored["state"], stored["evidence"], stored["evidence_at"], stored["checks"]) == (
        "saved", "unchecked", None, 0,
    )  # fmt: skip


# What the specialist's operators say.


async def test_a_resolution_reaches_the_person_who_rated(relay: Gateway, literature: Specialist):
    """Set, changed and taken back again by the specialist's operators: each time it is shown and told."""
    submission = await saved(relay)
    events = await told(relay)
    for n, resolution in enumerate(("fixed", "won't fix — by design", None), start=1):
        literature.listing = [kept(submission, resolution=resolution)]
        await check(relay.relay)
        assert (await relay.show(submission)).json["resolution"] == resolution
        assert await told(relay) == events + n


@pytest.mark.parametrize(
    "members",
    [{"resolution": 1}, {"resolution": ["fixed"]}, {"resolution": "a\nb"}, {"resolution": "x" * 1001}, {}],
    ids=["number", "list", "control", "too long", "absent"],
)
async def test_what_is_no_resolution_is_passed_over(relay: Gateway, literature: Specialist, members: dict[str, Any]):
    """What was said before stands; the row counts all the same."""
    submission = await saved(relay)
    literature.listing = [kept(submission, resolution="fixed")]
    await check(relay.relay)
    plain = kept(submission)
    del plain["resolution"]
    literature.listing = [{**plain, **members}]
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["evidence"], shown["resolution"]) == ("confirmed", "fixed")


async def test_a_row_of_other_content_has_no_say(relay: Gateway, literature: Specialist):
    """Its resolution is about another rating."""
    submission = await saved(relay)
    literature.listing = [kept(submission, rating="down", resolution="fixed")]
    await check(relay.relay)
    shown = (await relay.show(submission)).json
    assert (shown["evidence"], shown["resolution"]) == ("mismatch", None)


# Who is asked, when, and as whom.


async def hold(relay: Gateway, _literature: Specialist) -> None:
    await Agents(relay.relay.db).hold("acme", LITERATURE, "ops", "maintenance")


async def revoke(relay: Gateway, _literature: Specialist) -> None:
    await Agents(relay.relay.db).revoke(LITERATURE, "ops", "gone")


async def move(relay: Gateway, _literature: Specialist) -> None:
    """Its approved origin is another specialist's now."""
    await relay.change("UPDATE registrations SET lineage = lineage + 1 WHERE agent = 'literature'")
    await relay.change(
        "INSERT INTO registrations (agent, version, name, state, source, origin, protocol, credentials, lineage,"
        " proposed_by, proposed_at) SELECT agent, version + 1, name, 'approved', source, origin, protocol, credentials,"
        " lineage + 1, proposed_by, proposed_at FROM registrations WHERE agent = 'literature'"
    )
    await relay.change("UPDATE agents SET approved_version = 2, revision = revision + 1 WHERE id = 'literature'")


async def set_breaker(relay: Gateway, column: str, until: int) -> None:
    await relay.change("DELETE FROM agent_breakers")
    await relay.change(
        f"INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, {column})"
        " VALUES ('literature', 1, 9, 9, :until)",
        until=until,
    )


async def open_breaker(relay: Gateway, _literature: Specialist) -> None:
    await set_breaker(relay, "open_until", FAR)


async def pause(relay: Gateway, _literature: Specialist) -> None:
    await set_breaker(relay, "paused_until", FAR)


@pytest.mark.parametrize("obstacle", [hold, revoke, move, open_breaker, pause], ids=lambda f: f.__name__)
async def test_nothing_is_asked_of_an_agent_that_may_not_be_sent_to(
    relay: Gateway, literature: Specialist, obstacle: Any
):
    """As with deliveries. The check uses up nothing of its schedule."""
    await saved(relay)
    await obstacle(relay, literature)
    await check(relay.relay)
    stored = await row(relay)
    assert literature.gets == []
    assert (stored["evidence"], stored["evidence_at"], stored["checks"]) == ("unchecked", None, 0)
    assert stored["check_due_at"] is not None


async def test_a_hold_that_comes_after_the_claim_is_obeyed(relay: Gateway, literature: Specialist):
    """Between the claim and the request an operator holds the agent: nothing is sent. Resumed, it is checked."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await make_due(relay.relay)
    [checks] = await reconciler(relay.relay).claim()
    agents = Agents(relay.relay.db)
    await agents.hold("acme", LITERATURE, "ops", "maintenance")
    await relay.relay.registry.reload()
    await reconciler(relay.relay).check(checks)
    assert literature.gets == []
    await agents.resume("acme", LITERATURE, "ops", "over")
    await relay.relay.registry.reload()
    await check(relay.relay)
    assert (await relay.show(submission)).json["evidence"] == "confirmed"


@pytest.mark.parametrize(("waiting", "asked"), [("pending", 0), ("rejected", 1)])
async def test_a_breaker_is_probed_by_a_delivery_if_there_is_one(
    relay: Gateway, literature: Specialist, waiting: str, asked: int
):
    """Half-open, one request goes through: a delivery that waits. Where none does, reading back is not put off."""
    await saved(relay)
    literature.behave = answering(500 if waiting == "pending" else 422, {})
    await relay.record("t2")
    await relay.rate("t2")
    await set_breaker(relay, "open_until", 1)
    await check(relay.relay)
    assert len(literature.gets) == asked


async def test_a_retry_after_is_a_floor_for_checks(relay: Gateway, literature: Specialist):
    """The specialist asks for two hours: the next check is not made after one."""
    await saved(relay)
    literature.lists = answering(503, {}, headers={"Retry-After": "7200"})
    await check(relay.relay)
    stored = await row(relay)
    assert stored["check_due_at"] - stored["saved_at"] >= 120 * MINUTE


async def test_a_401_gets_one_fresh_token(relay: Gateway, literature: Specialist):
    """As in an attempt: once, under the same identity."""
    submission = await saved(relay)

    async def once(_received: Received) -> web.StreamResponse:
        literature.lists = None
        return web.json_response({}, status=401)

    literature.lists, literature.listing = once, [kept(submission)]
    await check(relay.relay)
    assert (await relay.show(submission)).json["evidence"] == "confirmed"
    [post] = literature.posts
    assert {get.headers["Authorization"] for get in literature.gets} == {post.headers["Authorization"]}
    assert len(literature.gets) == 2


async def test_one_list_settles_all_that_is_due_of_its_owner(relay: Gateway, literature: Specialist):
    """Three ratings of alice's, one of bob's: two lists. What comes up within moments is taken along."""
    of_alice = [await saved(relay, f"t{n}") for n in range(3)]
    of_bob = await saved(relay, "t9", sub="bob")
    literature.listing = [kept(s, taskId=t) for s, t in zip([*of_alice, of_bob], ("t0", "t1", "t2", "t9"), strict=True)]
    await make_due(relay.relay)
    async with relay.relay.db.write() as connection:
        soon = "UPDATE deliveries SET check_due_at = {now} + 1000 WHERE id = 1"
        await connection.execute(relay.relay.db.sql(soon))
    claimed = await reconciler(relay.relay).claim()
    assert sorted(len(checks) for checks in claimed) == [1, 3]
    for checks in claimed:
        await reconciler(relay.relay).check(checks)
    found = await relay.rows("SELECT evidence FROM deliveries")
    assert [r["evidence"] for r in found] == ["confirmed"] * 4
    assert len(literature.gets) == 2


async def test_few_lists_at_a_time_are_asked_of_an_agent(relay: Gateway, literature: Specialist):
    """Two owners' at once; the third's turn comes when one of them is done, the longest due first."""
    for n in range(4):
        await saved(relay, f"t{n}", sub=f"person-{n}")
    await make_due(relay.relay)
    first = await reconciler(relay.relay).claim()
    assert len(first) == IN_FLIGHT_PER_AGENT
    assert await reconciler(relay.relay).claim() == []
    await reconciler(relay.relay).check(first[0])
    [third] = await reconciler(relay.relay).claim()
    assert third[0].owner not in {checks[0].owner for checks in first}
    assert len(literature.gets) == 1


async def test_lists_that_never_come_stop_no_delivery(relay: Gateway, literature: Specialist):
    """All places of reading back are taken by a specialist that does not answer: a rating is saved all the same."""
    free = asyncio.Event()

    async def stall(_received: Received) -> web.StreamResponse:
        await free.wait()
        return web.json_response([])

    literature.lists = stall
    for n in range(IN_FLIGHT_PER_AGENT):
        await saved(relay, f"t{n}", sub=f"person-{n}")
    await make_due(relay.relay)
    async with asyncio.TaskGroup() as group:
        for checks in await reconciler(relay.relay).claim():
            group.create_task(reconciler(relay.relay).check(checks))
        await saved(relay, "t9")
        free.set()


async def claim_by(checks: Checks, relay: Gateway) -> list[Check]:
    snapshot = relay.relay.registry.snapshot
    return await checks.claim({LITERATURE: 3}, snapshot)


async def test_two_reconcilers_never_check_one_owner_at_once(relay: Gateway, database_url: str):
    """Four of them claim at the same moment, again and again: each delivery once, each owner's by one of them."""
    for n in range(12):
        await saved(relay, f"t{n}", sub=f"person-{n % 4}")
    await make_due(relay.relay)
    others = [Database.open(database_url) for _ in range(4)]
    stores = [Checks(db, deadline_seconds=5) for db in others]
    owners: dict[int, int] = {}
    seen: list[int] = []
    while len(seen) < 12:
        claims: Sequence[list[Check]] = await asyncio.gather(*(claim_by(store, relay) for store in stores))
        for who, claimed in enumerate(claims):
            for one in claimed:
                seen.append(one.delivery)
                assert owners.setdefault(one.owner, who) == who
    assert sorted(seen) == sorted(set(seen))
    for db in others:
        await db.close()


async def test_a_claim_that_is_never_settled_comes_back(relay: Gateway, literature: Specialist):
    """A reconciler is killed: nothing until its lease ends, then another one checks. The dead one is not heard."""
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await make_due(relay.relay)
    store = Checks(relay.relay.db, deadline_seconds=5)
    [dead] = await claim_by(store, relay)
    assert await claim_by(store, relay) == []
    stored = await row(relay)
    assert dead.leased_until == stored["check_due_at"]
    await check(relay.relay)  # which lets time pass
    assert (await relay.show(submission)).json["evidence"] == "confirmed"
    missing = Checked(check=dead, finding=Finding(result="missing", evidence="missing", seen=True), wait_ms=1)
    assert await store.settle([missing]) == {}
    assert (await relay.show(submission)).json["evidence"] == "confirmed"


async def test_an_owners_deliveries_that_are_being_settled_are_passed_over(relay: Gateway, literature: Specialist):
    """On PostgreSQL nobody waits for a row that a settle holds: its check comes back."""
    if relay.relay.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer")
    submission = await saved(relay)
    literature.listing = [kept(submission)]
    await make_due(relay.relay)
    [checks] = await reconciler(relay.relay).claim()
    async with relay.relay.db.write() as connection:
        await connection.execute(text("SELECT 1 FROM deliveries FOR UPDATE"))
        await reconciler(relay.relay).check(checks)
    assert (await row(relay))["evidence"] == "unchecked"
    await check(relay.relay)
    assert (await row(relay))["evidence"] == "confirmed"


async def test_what_was_erased_is_not_looked_for(relay: Gateway, literature: Specialist):
    """There is nothing left to compare."""
    await saved(relay)
    await relay.change(
        "UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL, erased_at = 1"
    )
    await check(relay.relay)
    assert literature.gets == []
    assert (await row(relay))["check_due_at"] is None


async def test_a_confirmation_joins_the_rating_to_the_run(relay: Gateway, literature: Specialist):
    """Task, run and what the run used come from provenance; the person sees the run's id."""
    evidence = [{"kind": "tool_call", "id": "c2"}, {"kind": "tool_call", "id": "c1"}]
    await relay.record("t1", runId="run-7", evidence=evidence)
    submission = (await relay.rate("t1")).json["id"]
    literature.listing = [kept(submission, resolution="fixed")]
    await check(relay.relay)
    assert (await relay.show(submission)).json["runId"] == "run-7"
    [stored] = await relay.rows("SELECT seq FROM submissions")
    store = Checks(relay.relay.db, deadline_seconds=5)
    confirmation = await store.confirmation(stored["seq"])
    assert confirmation is not None
    assert (confirmation.submission, confirmation.agent, confirmation.task, confirmation.run) == (
        submission, "literature", "t1", "run-7",
    )  # fmt: skip
    assert confirmation.references == (
        Reference(kind="tool_call", id="c1"),
        Reference(kind="tool_call", id="c2"),
    )
    assert (confirmation.evidence, confirmation.resolution) == ("confirmed", "fixed")
    assert confirmation.evidence_at == (await row(relay))["evidence_at"]
    assert await store.confirmation(stored["seq"] + 1) is None


async def test_it_works_in_the_background(tmp_path: Path, database_url: str):
    """A worker reads back by itself what a rating of a moment ago has become."""
    async with small_world(tmp_path, database_url, reconcile='["50ms", "50ms", "1h"]') as (relay, specialists):
        literature = specialists["literature"]
        submission = new_id()
        literature.listing = [kept(submission, resolution="fixed")]
        await saved(relay, id=submission)
        while (await relay.show(submission)).json["evidence"] != "confirmed":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        assert (await relay.show(submission)).json["resolution"] == "fixed"


async def test_it_can_be_turned_off(tmp_path: Path, sqlite_database_url: str):
    """Nothing is planned, and nothing is ever asked."""
    async with small_world(tmp_path, sqlite_database_url, reading_back="false") as (relay, _):
        await saved(relay)
        assert (await row(relay))["check_due_at"] is None
        assert relay.relay.reconciler is None
