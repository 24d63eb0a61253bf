"""What operators do to single submissions: what each state allows, what is written, what workers may do meanwhile."""

import asyncio
import json
from typing import Any, get_args

import pytest

from relay.delivery.model import State
from relay.errors import Refusal
from relay.operators.agents import Agents
from relay.operators.submissions.acting import Acted
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import Desk

BY = "ok_operator"
WHY = "the specialist is back"
SOON = 2**52

RETRIED: dict[State, tuple[str, State]] = {
    "pending": ("made_due", "pending"),
    "held": ("made_due", "held"),
    "needs_owner": ("made_due", "needs_owner"),
    "rejected": ("reopened", "pending"),
    "exhausted": ("reopened", "pending"),
    "abandoned": ("reopened", "pending"),
    "sending": ("being_sent", "sending"),
}
ABANDONED: tuple[State, ...] = ("pending", "held", "needs_owner")


async def retry(desk: Desk, number: int = 1, *, why: str | None = WHY) -> Acted:
    return await desk.actions.retry(TENANT, "ok_1", f"s-{number}", by=BY, why=why)


async def abandon(desk: Desk, number: int = 1, *, why: str = "no use") -> Acted:
    return await desk.actions.abandon(TENANT, "ok_1", f"s-{number}", by=BY, why=why)


async def now(desk: Desk) -> int:
    async with desk.db.read() as connection:
        return await desk.db.now_ms(connection)


@pytest.mark.parametrize("state", sorted(RETRIED))
async def test_a_retry_by_state(desk: Desk, state: State):
    """What each state that is not final for good becomes, in one transaction with its event and its audit entry."""
    delivery = await desk.place(
        1, state=state, schedule_position=3, attempt_count=3, window_started_at=1, due_at=SOON, evidence="unchecked"
    )
    before = await now(desk)
    acted = await retry(desk)
    outcome, after = RETRIED[state]
    assert (acted.outcome, acted.before, acted.after) == (outcome, state, after)
    assert (acted.owner, acted.submission) == ("ok_1", "s-1")
    row = await desk.outbox.row(delivery)
    assert row["state"] == after
    changed = outcome != "being_sent"
    assert (row["due_at"] <= await now(desk)) is changed
    assert (row["schedule_position"], row["window_started_at"] >= before) == (
        (0, True) if outcome == "reopened" else (3, False)
    )
    assert await desk.events() == ([(row["submission"], after)] if changed else [])
    assert len(await desk.audited()) == int(changed)
    assert desk.told == [None]


@pytest.mark.parametrize("state", sorted({*get_args(State)} - RETRIED.keys()))
async def test_what_cannot_be_retried_stays(desk: Desk, state: State):
    """Saved and in conflict: 409 that says the state, and nothing is written."""
    delivery = await desk.place(1, state=state)
    before = await desk.outbox.row(delivery)
    with pytest.raises(Refusal) as refused:
        await retry(desk)
    assert (refused.value.code, refused.value.extra) == ("not_retryable", {"state": state})
    assert (await desk.outbox.row(delivery), await desk.audited(), await desk.events()) == (before, [], [])


@pytest.mark.parametrize("state", ABANDONED)
async def test_what_waits_can_be_abandoned(desk: Desk, state: State):
    """With who and why on the delivery, an event for its owner, and an audit entry."""
    delivery = await desk.place(1, state=state)
    acted = await abandon(desk)
    assert (acted.outcome, acted.before, acted.after) == ("abandoned", state, "abandoned")
    row = await desk.outbox.row(delivery)
    assert (row["state"], row["abandoned_by"], row["abandoned_why"]) == ("abandoned", BY, "no use")
    assert await desk.events() == [(row["submission"], "abandoned")]
    [entry] = await desk.audited()
    assert (entry["action"], entry["target"], entry["actor"]) == ("submission.abandon", "ok_1/s-1", BY)
    assert (entry["tenant"], entry["why"]) == (TENANT, "no use")
    assert json.loads(entry["before"])["state"] == state
    assert json.loads(entry["after"]) == {"state": "abandoned"}
    assert await desk.outbox.claim() == []


@pytest.mark.parametrize("state", sorted({*get_args(State)} - {*ABANDONED}))
async def test_what_does_not_wait_cannot_be_abandoned(desk: Desk, state: State):
    """409 that says the state now, of what is being sent as well; nothing is written."""
    delivery = await desk.place(1, state=state)
    before = await desk.outbox.row(delivery)
    with pytest.raises(Refusal) as refused:
        await abandon(desk)
    assert (refused.value.code, refused.value.extra) == ("not_abandonable", {"state": state})
    assert ("being sent now" in refused.value.detail) is (state == "sending")
    assert (await desk.outbox.row(delivery), await desk.audited(), await desk.events()) == (before, [], [])


async def test_an_audit_entry_says_before_and_after(desk: Desk):
    """State and due time as they were and as they are."""
    delivery = await desk.place(1, state="exhausted", due_at=5)
    await retry(desk)
    [entry] = await desk.audited()
    row = await desk.outbox.row(delivery)
    assert json.loads(entry["before"]) == {"state": "exhausted", "dueAt": 5}
    assert json.loads(entry["after"]) == {"state": "pending", "dueAt": row["due_at"]}
    assert (entry["action"], entry["actor"], entry["why"]) == ("submission.retry", BY, WHY)


async def test_a_reason_keeps_no_secret(desk: Desk):
    """Somebody pastes a header into the field: neither the delivery nor the audit log keeps it."""
    delivery = await desk.place(1)
    await abandon(desk, why="got Authorization: Bearer abcdefghijklmnop")
    assert "abcdefghijklmnop" not in str(await desk.outbox.row(delivery)) + str(await desk.audited())


@pytest.mark.parametrize("state", ["pending", "rejected", "abandoned"])
async def test_a_wait_that_the_specialist_asked_for_stands(desk: Desk, state: State):
    """Due when that is over, not before: Retry-After is a floor for operators too."""
    floor = await now(desk) + 3_600_000
    delivery = await desk.place(1, state=state, not_before=floor, due_at=SOON)
    await retry(desk)
    row = await desk.outbox.row(delivery)
    assert (row["state"], row["due_at"]) == ("pending", floor)
    assert await desk.outbox.claim() == []


async def test_what_is_due_already_is_left_alone(desk: Desk):
    """It says so, and nothing is written, however often somebody presses the button."""
    delivery = await desk.place(1)
    assert (await retry(desk)).outcome == "made_due"
    before = await desk.outbox.row(delivery)
    assert (await retry(desk)).outcome == "already_due"
    assert await desk.outbox.row(delivery) == before
    assert len(await desk.audited()) == 1


async def test_what_is_reopened_goes_where_it_has_to_wait(desk: Desk):
    """A hold, a revoked agent and an absent owner are not overridden; none of it is sent."""
    literature: Any = "literature"
    await desk.place(1, state="exhausted")
    await desk.place(2, state="abandoned", abandoned_by="x", abandoned_why="y")
    await desk.outbox.agents.hold(TENANT, literature, "op", "look at it")
    assert (await retry(desk, 1)).after == "held"
    await desk.outbox.agents.resume(TENANT, literature, "op", None)
    await desk.outbox.agents.revoke(literature, "op", "gone")
    acted = await retry(desk, 2)
    assert (acted.outcome, acted.after) == ("reopened", "held")
    [row] = await desk.outbox.rows("SELECT * FROM deliveries WHERE state = 'held' AND id = 2")
    assert (row["abandoned_by"], row["abandoned_why"]) == (None, None)
    await desk.outbox.registry.reload()
    assert await desk.outbox.claim() == []


async def test_what_needs_its_owner_goes_on_waiting_for_them(desk: Desk):
    """Credentials changed since it was given up: it is worked out anew that the owner's own sign-in is needed."""
    await desk.outbox.change(
        "UPDATE registrations SET credentials = :credentials WHERE agent = 'literature'",
        credentials=json.dumps(
            [
                {
                    "mode": "token_exchange",
                    "issuer": "https://login.example.org",
                    "client_id": "workbench",
                    "token_endpoint": "https://login.example.org/token",
                    "key_file": "key",
                    "resource": "https://literature.example.org",
                }
            ]
        ),
    )
    delivery = await desk.place(1, state="exhausted")
    await desk.outbox.change("UPDATE deliveries SET needs_presence = true")
    await desk.place(2, state="exhausted")
    await desk.outbox.change("UPDATE deliveries SET needs_presence = false WHERE id = :id", id=delivery)
    async with desk.db.write() as connection:
        kept = desk.db.dialect == "postgresql"
        statement = "SET LOCAL session_replication_role = replica" if kept else "DROP TRIGGER submissions_immutable"
        await connection.execute(desk.db.sql(statement))
        await connection.execute(desk.db.sql("UPDATE submissions SET ran_as = 'owner' WHERE id = 's-1'"))
    assert (await retry(desk, 1)).after == "needs_owner"
    assert (await desk.outbox.row(delivery))["needs_presence"]
    assert (await retry(desk, 2)).after == "pending"


@pytest.mark.parametrize("action", [retry, abandon], ids=["retry", "abandon"])
async def test_what_was_erased_is_gone(desk: Desk, action: Any):
    """410, whatever its state is, and nothing of it comes back."""
    delivery = await desk.place(1, state="abandoned")
    await desk.erase(delivery)
    with pytest.raises(Refusal) as refused:
        await action(desk)
    assert refused.value.code == "submission_erased"
    assert (await desk.outbox.row(delivery))["state"] == "abandoned"


@pytest.mark.parametrize("action", [retry, abandon], ids=["retry", "abandon"])
async def test_what_is_another_tenants_is_not_touched(desk: Desk, action: Any):
    """The same refusal as for what does not exist."""
    delivery = await desk.place(1, tenant="other")
    before = await desk.outbox.row(delivery)
    told = []
    for number in (1, 99):
        with pytest.raises(Refusal) as refused:
            await action(desk, number)
        told.append((refused.value.code, refused.value.detail))
    assert told[0] == told[1]
    assert told[0][0] == "submission_not_found"
    assert await desk.outbox.row(delivery) == before


# Beside workers.


async def test_a_late_acknowledgement_wins_over_an_abandonment(desk: Desk):
    """Its lease ended, an operator gave it up, and then the specialist's 201 came: saved is saved."""
    delivery = await desk.place(1, due_at=1)
    [claimed] = await desk.outbox.claim()
    await desk.outbox.expire(delivery)
    [lost] = await desk.outbox.deliveries.expired()
    await desk.outbox.settlements._write([lost])
    assert (await abandon(desk)).outcome == "abandoned"
    assert (await desk.outbox.settle(claimed, "retry")).state is None
    assert (await desk.outbox.row(delivery))["state"] == "abandoned"
    assert (await desk.outbox.settle(claimed, "saved")).state == "saved"
    assert (await desk.outbox.row(delivery))["state"] == "saved"


async def test_actions_and_claims_at_once_each_do_what_they_say(desk: Desk):
    """Workers claim and settle while operators abandon and retry: each delivery ends as whoever had it said."""
    for number in range(40):
        await desk.place(number, due_at=1)
    ends: dict[str, str] = {}

    async def work() -> None:
        while claimed := await desk.outbox.claim(literature=3):
            for one in claimed:
                assert (await desk.outbox.settle(one, "saved")).state == "saved"
                ends.setdefault(one.submission, "saved")

    async def give_up(number: int) -> None:
        try:
            acted = await abandon(desk, number)
        except Refusal as refusal:
            assert refusal.extra["state"] in {"sending", "saved"}  # noqa: PT017
            return
        assert acted.outcome == "abandoned"
        assert ends.setdefault(acted.submission, "abandoned") == "abandoned"

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        group.create_task(work())
        for number in range(39, -1, -1):
            group.create_task(give_up(number))
    rows = await desk.outbox.rows("SELECT s.id, d.state FROM submissions s JOIN deliveries d ON d.submission = s.seq")
    assert {row["id"]: row["state"] for row in rows} == ends
    assert len(await desk.audited()) == sum(state == "abandoned" for state in ends.values())


async def test_a_retry_and_a_hold_at_once_end_held(desk: Desk):
    """Whichever comes first: what is reopened is not left pending under a hold."""
    literature: Any = "literature"
    agents: Agents = desk.outbox.agents
    for number in range(10):
        await desk.place(number, state="exhausted")
    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(retry(desk, number))
        group.create_task(agents.hold(TENANT, literature, "op", "stop"))
        for number in range(5, 10):
            group.create_task(retry(desk, number))
    rows = await desk.outbox.rows("SELECT DISTINCT state FROM deliveries")
    assert [row["state"] for row in rows] == ["held"]
