"""The outbox in the database: claims, fencing, settles, leases, holds and breakers, on both engines."""

import asyncio

import pytest
from sqlalchemy import text

from registry.model import AgentId, Version
from relay.delivery.model import Outcome, Settlement
from tests.delivery.conftest import LEASE, TENANT, Outbox, declaration

LITERATURE = AgentId("literature")

BACKLOG = """
WITH s AS (
    INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
        payload, sha256, created_at)
    SELECT 1, 'acme', 'workbench', 's' || n, 'literature', 't' || n, 'client', 1, 'roblox-v1', 'up', 'x', 'ab', 1
    FROM generate_series(1, 6000) AS n RETURNING seq)
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, 'literature', 'acme', 1, false, 'pending', 1, 10000 - seq, 0, 0, 0, 1, 'unchecked', 1 FROM s
"""


async def test_a_claim_takes_what_is_due_and_advances_the_schedule(outbox: Outbox):
    """Due rows are claimed, oldest first, within the free slots; a row that is not due stays."""
    first = await outbox.place(due_ms=-10)
    await outbox.place(due_ms=60_000)
    second = await outbox.place(due_ms=-5)
    third = await outbox.place(due_ms=-1)
    claimed = await outbox.claim(literature=2)
    assert sorted(c.claim.delivery for c in claimed) == [first, second]
    row = await outbox.row(first)
    assert (row["state"], row["schedule_position"], row["attempt_count"]) == ("sending", 1, 1)
    assert row["lease_until"] - row["claimed_at"] == LEASE * 1000
    assert [c.claim.delivery for c in await outbox.claim()] == [third]
    assert await outbox.claim() == []


async def test_each_agent_has_slots_of_its_own(outbox: Outbox):
    """One agent's backlog takes nothing from another's."""
    for _ in range(5):
        await outbox.place("literature", due_ms=-1000)
    await outbox.place("chemistry", due_ms=-1)
    claimed = await outbox.claim(literature=2, chemistry=2)
    assert sorted(c.claim.agent for c in claimed) == ["chemistry", "literature", "literature"]


async def test_a_settle_by_a_stale_claim_changes_nothing(outbox: Outbox):
    """A pauses past its lease, B claims, A comes back with a failure: B's claim stands, A's attempt is logged."""
    delivery = await outbox.place()
    (a,) = await outbox.claim()
    await outbox.expire(delivery)
    for lost in await outbox.deliveries.expired():
        await outbox.settlements._write([lost])
    await outbox.make_due()
    (b,) = await outbox.claim()
    before = await outbox.row(delivery)
    assert (await outbox.settle(a, "retry", status=500, reason="server_error")).state is None
    assert await outbox.row(delivery) == before
    assert (await outbox.settle(b, "saved", status=201)).state == "saved"
    outcomes = [r["outcome"] for r in await outbox.rows("SELECT outcome FROM attempts ORDER BY id")]
    assert outcomes == ["lost", "retry", "saved"]


@pytest.mark.parametrize("state", ["pending", "sending", "rejected", "conflict", "exhausted", "held", "abandoned"])
async def test_a_late_valid_acknowledgement_wins_from_any_state(outbox: Outbox, state: str):
    """A valid 201 is the truth, whatever has been decided meanwhile."""
    delivery = await outbox.place()
    (claimed,) = await outbox.claim()
    await outbox.change("UPDATE deliveries SET state = :state, claim_token = 'another' WHERE id = :id",
                        state=state, id=delivery)  # fmt: skip
    assert (await outbox.settle(claimed, "saved", status=201)).state == "saved"
    assert (await outbox.row(delivery))["saved_at"] is not None


async def test_saved_never_leaves_saved(outbox: Outbox):
    """Whatever comes after the acknowledgement changes nothing, a second acknowledgement included."""
    delivery = await outbox.place()
    (claimed,) = await outbox.claim()
    await outbox.settle(claimed, "saved", status=201)
    before = await outbox.row(delivery)
    for end in ("retry", "rejected", "conflict", "lost", "released", "saved"):
        assert (await outbox.settle(claimed, end)).state is None
    assert await outbox.row(delivery) == before
    assert [e["state"] for e in await outbox.rows("SELECT state FROM events ORDER BY seq")] == ["saved"]


async def test_an_expired_lease_is_logged_once_as_lost(outbox: Outbox):
    """Two workers find the same dead claim: one ambiguous attempt, one new due time, by the schedule."""
    delivery = await outbox.place()
    await outbox.claim()
    assert await outbox.deliveries.expired() == []
    await outbox.expire(delivery)
    first, second = await outbox.deliveries.expired(), await outbox.deliveries.expired()
    await outbox.settlements._write(first)
    await outbox.settlements._write(second)
    attempts = await outbox.rows("SELECT outcome, ambiguous, number FROM attempts")
    assert [(a["outcome"], bool(a["ambiguous"]), a["number"]) for a in attempts] == [("lost", True, 1)]
    row = await outbox.row(delivery)
    assert row["state"] == "pending"
    assert 4_000 < row["due_at"] - row["state_since"] <= 5_000


async def test_a_row_that_kills_its_worker_comes_to_an_end(outbox: Outbox):
    """The schedule advances at the claim: after its last entry a claim that is lost is exhausted."""
    delivery = await outbox.place()
    for expected in ("pending", "pending", "exhausted"):
        await outbox.make_due()
        assert len(await outbox.claim()) == 1
        await outbox.expire(delivery)
        await outbox.settlements._write(await outbox.deliveries.expired())
        assert (await outbox.row(delivery))["state"] == expected


async def test_the_schedule_is_followed_to_its_end(outbox: Outbox):
    """Three entries are three attempts: 5 s after the first, 30 s after the second, exhausted after the third."""
    delivery = await outbox.place()
    waits = []
    for _ in range(3):
        await outbox.make_due()
        (claimed,) = await outbox.claim()
        await outbox.settle(claimed, "retry", reason="server_error", status=503)
        row = await outbox.row(delivery)
        waits.append((row["state"], round((row["due_at"] - row["state_since"]) / 1000)))
    assert waits[:2] == [("pending", 5), ("pending", 30)]
    assert waits[2][0] == "exhausted"


async def test_attempt_and_due_time_commit_together(outbox: Outbox):
    """If the attempt cannot be logged, the delivery is not rescheduled either: its lease ends and it is tried again."""
    delivery = await outbox.place()
    (claimed,) = await outbox.claim()
    before = await outbox.row(delivery)
    await outbox.change("ALTER TABLE attempts RENAME TO attempts_gone")
    with pytest.raises(Exception, match="attempts"):
        await outbox.settlements._write([Settlement(claimed.claim, Outcome(end="retry", phase="body"))])
    await outbox.change("ALTER TABLE attempts_gone RENAME TO attempts")
    assert await outbox.row(delivery) == before


async def test_a_released_claim_gives_its_place_back(outbox: Outbox):
    """A claim that was never sent leaves no attempt, and the schedule where it was."""
    delivery = await outbox.place()
    (claimed,) = await outbox.claim()
    assert (await outbox.settle(claimed, "released", phase=None)).state == "pending"
    row = await outbox.row(delivery)
    assert (row["schedule_position"], row["attempt_count"], row["claim_token"]) == (0, 0, None)
    assert await outbox.rows("SELECT * FROM attempts") == []
    assert len(await outbox.claim()) == 1


async def test_retry_after_is_a_floor_for_the_delivery_and_the_agent(outbox: Outbox):
    """100 waiting, a 429 with 60 s: nothing of this agent is claimed before, another agent is not affected."""
    first = await outbox.place(due_ms=-100)
    for _ in range(99):
        await outbox.place()
    (claimed,) = await outbox.claim(literature=1)
    await outbox.settle(claimed, "retry", status=429, reason="rate_limited", retry_after_ms=60_000, pauses_agent=True)
    row = await outbox.row(first)
    assert row["due_at"] - row["state_since"] >= 60_000
    assert row["not_before"] - row["state_since"] == 60_000
    await outbox.place("chemistry")
    assert [c.claim.agent for c in await outbox.claim(literature=100, chemistry=100)] == ["chemistry"]
    await outbox.change("UPDATE agent_breakers SET paused_until = {now} WHERE agent = 'literature'")
    assert len(await outbox.claim(literature=16)) == 16


async def test_an_owner_may_ask_once_in_five_seconds_and_never_past_a_floor(outbox: Outbox):
    """An attempt that the owner asks for does not advance the schedule, and is not made before a floor."""
    delivery = await outbox.place(due_ms=60_000)
    revision = outbox.registry.snapshot[LITERATURE].revision
    claimed = await outbox.deliveries.claim_one(delivery, "repeat", revision, 0.0)
    assert claimed is not None
    assert (claimed.claim.cause, claimed.claim.position, claimed.claim.number) == ("repeat", 0, 1)
    due = (await outbox.row(delivery))["due_at"]
    await outbox.settle(claimed, "retry", status=500, reason="server_error")
    assert (await outbox.row(delivery))["due_at"] == due
    assert await outbox.deliveries.claim_one(delivery, "repeat", revision, 0.0) is None
    await outbox.change("UPDATE deliveries SET owner_attempt_at = 0, not_before = {now} + 60000")
    assert await outbox.deliveries.claim_one(delivery, "retry", revision, 0.0) is None
    await outbox.change("UPDATE deliveries SET not_before = 0")
    assert await outbox.deliveries.claim_one(delivery, "retry", revision, 0.0) is not None


async def test_a_hold_is_one_tenants_own(outbox: Outbox):
    """Held for one tenant, sent for the other; a resume sets the waiting free."""
    held = await outbox.place(tenant=TENANT)
    sent = await outbox.place(tenant="other")
    outcome = await outbox.agents.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert (outcome.parked, outcome.freed) == (1, 0)
    assert (await outbox.row(held))["state"] == "held"
    assert await outbox.claim() == []  # decided from an old snapshot: nothing is claimed
    await outbox.registry.reload()
    assert [c.claim.delivery for c in await outbox.claim()] == [sent]
    assert (await outbox.agents.resume(TENANT, LITERATURE, "ops", None)).freed == 1
    await outbox.registry.reload()
    assert [c.claim.delivery for c in await outbox.claim()] == [held]


async def test_an_attempt_that_ends_during_a_hold_parks_its_delivery(outbox: Outbox):
    """A hold lets an attempt under way finish; what comes back from it waits for the operator."""
    delivery = await outbox.place()
    (claimed,) = await outbox.claim()
    await outbox.agents.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert (await outbox.row(delivery))["state"] == "sending"
    assert (await outbox.settle(claimed, "retry", status=500)).state == "held"


async def test_a_settle_judged_by_an_old_registry_is_judged_again(outbox: Outbox):
    """An outcome weighed before a change of the registry writes nothing; a valid acknowledgement needs no registry."""
    await outbox.place()
    await outbox.place()
    one, two = await outbox.claim()
    await outbox.agents.hold(TENANT, LITERATURE, "ops", "they are moving")
    retry, saved = Outcome(end="retry", phase="body"), Outcome(end="saved", phase="body")
    settled = await outbox.settlements._write([Settlement(one.claim, retry), Settlement(two.claim, saved)])
    assert settled[0] is None
    assert settled[1] is not None
    assert settled[1].state == "saved"
    assert len(await outbox.rows("SELECT * FROM attempts")) == 1


async def test_an_origin_that_changes_holds_its_deliveries_until_approved(outbox: Outbox):
    """A new origin takes the old approval out of force; approved, it serves new tasks, and old ones still wait until an
    operator says that it is the same specialist."""  # noqa: D209
    delivery = await outbox.place()
    await outbox.agents.seed([declaration("literature", "https://moved.example.org"), declaration("chemistry")])
    assert (await outbox.row(delivery))["state"] == "held"
    await outbox.registry.reload()
    assert outbox.registry.snapshot[LITERATURE].approved is None
    assert await outbox.claim() == []
    await outbox.agents.approve(LITERATURE, Version(2), "ops", "checked the certificate")
    assert (await outbox.row(delivery))["state"] == "held"
    newer = await outbox.place(version=2)
    await outbox.registry.reload()
    assert [c.claim.delivery for c in await outbox.claim()] == [newer]
    await outbox.agents.declare_same(LITERATURE, Version(1), "ops", "the same team, the same model")
    assert (await outbox.row(delivery))["state"] == "pending"
    actions = [(r["action"], r["actor"]) for r in await outbox.rows("SELECT action, actor FROM audit_log ORDER BY seq")]
    assert actions[-3:] == [
        ("agent.proposed", "configuration"),
        ("agent.approve", "ops"),
        ("agent.same_specialist", "ops"),
    ]


async def test_a_breaker_opens_probes_once_and_closes(outbox: Outbox):
    """Too many failures within the window open it; then one probe; its success closes it."""
    for _ in range(10):
        await outbox.place()
    for claimed in await outbox.claim(literature=4):
        await outbox.settle(claimed, "retry", status=500, reason="server_error", unhealthy=True)
    await outbox.make_due()
    assert await outbox.claim() == []
    await outbox.change("UPDATE agent_breakers SET open_until = {now} - 1")
    (probe,) = await outbox.claim()
    assert await outbox.claim() == []
    await outbox.settle(probe, "retry", status=500, reason="server_error", unhealthy=True)
    assert await outbox.claim() == []
    await outbox.change("UPDATE agent_breakers SET open_until = {now} - 1")
    (probe,) = await outbox.claim()
    await outbox.settle(probe, "saved", status=201)
    await outbox.make_due()
    assert len(await outbox.claim()) == 9


async def test_a_refusal_does_not_count_against_an_agent(outbox: Outbox):
    """A specialist that answers, even with a no, is alive."""
    for _ in range(8):
        await outbox.place()
    for claimed in await outbox.claim():
        await outbox.settle(claimed, "rejected", status=422)
    await outbox.place()
    assert len(await outbox.claim()) == 1


async def test_a_new_window_starts_only_from_a_refusal_or_an_exhausted_schedule(outbox: Outbox):
    """Reopening resets the schedule and the grace for a 404; any other state is left alone."""
    delivery = await outbox.place()
    revision = outbox.registry.snapshot[LITERATURE].revision
    for state in ("pending", "sending", "saved", "conflict", "abandoned", "held"):
        await outbox.change("UPDATE deliveries SET state = :state", state=state)
        assert not await outbox.deliveries.reopen(delivery, revision, held=False)
    await outbox.change("UPDATE deliveries SET state = 'exhausted', schedule_position = 3, window_started_at = 1")
    assert not await outbox.deliveries.reopen(delivery, revision - 1, held=False)
    assert await outbox.deliveries.reopen(delivery, revision, held=False)
    row = await outbox.row(delivery)
    assert (row["state"], row["schedule_position"]) == ("pending", 0)
    assert row["window_started_at"] > 1


async def test_the_session_time_zone_does_not_matter(outbox: Outbox):
    """Due and lease times are instants: a database that lives in Tokyo claims the same rows."""
    if outbox.db.dialect == "postgresql":
        async with outbox.db.write() as connection:
            name = (await connection.execute(text("SELECT current_database()"))).scalar_one()
            await connection.execute(text(f"ALTER DATABASE \"{name}\" SET timezone TO 'Asia/Tokyo'"))
        await outbox.db.close()
    await outbox.place(due_ms=-1)
    await outbox.place(due_ms=60_000)
    assert len(await outbox.claim()) == 1


async def test_a_hold_never_takes_back_what_was_settled_meanwhile(outbox: Outbox):
    """A backlog, a hold, and a worker that goes on while it is written: saved stays saved, sending stays sending."""
    if outbox.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer: nothing happens meanwhile")
    async with outbox.db.write() as connection:
        await connection.execute(outbox.db.sql(BACKLOG))
    acknowledged: list[int] = []
    in_flight: list[int] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        while not ended.is_set():
            for number, claimed in enumerate(await outbox.claim(literature=8)):
                if number % 2:
                    await outbox.settle(claimed, "saved", status=201)
                    acknowledged.append(claimed.claim.delivery)
                else:
                    in_flight.append(claimed.claim.delivery)
            begun.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        await begun.wait()
        assert (await outbox.agents.hold(TENANT, LITERATURE, "ops", "they are moving")).parked > 0
        ended.set()
    states = {row["id"]: row["state"] for row in await outbox.rows("SELECT id, state FROM deliveries")}
    assert {states[delivery] for delivery in acknowledged} == {"saved"}
    assert {states[delivery] for delivery in in_flight} == {"sending"}


async def test_one_lease_left_over_for_ever_stops_nobody(outbox: Outbox):
    """A claim from months ago is buried like any other, and others are claimed all the same."""
    old = await outbox.place()
    await outbox.claim()
    await outbox.change("UPDATE deliveries SET lease_until = 1, claimed_at = 1 WHERE id = :id", id=old)
    (lost,) = await outbox.deliveries.expired()
    assert lost.outcome.duration_ms == 2**31 - 1
    await outbox.settlements._write([lost])
    assert (await outbox.row(old))["state"] == "pending"


async def test_a_failing_authorization_server_says_nothing_of_the_agent(outbox: Outbox):
    """An attempt that never got as far as the agent neither opens nor closes its breaker."""
    for _ in range(6):
        await outbox.place()
    *some, last = await outbox.claim()
    for claimed in some:
        await outbox.settle(claimed, "retry", reason="token_endpoint_unreachable", phase="authorize")
    assert await outbox.rows("SELECT * FROM agent_breakers") == []
    await outbox.change(
        "INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, open_until)"
        " VALUES ('literature', 1, 9, 9, {now} + 60000)"
    )
    await outbox.settle(last, "retry", reason="token_endpoint_unreachable", phase="authorize")
    assert (await outbox.rows("SELECT open_until FROM agent_breakers"))[0]["open_until"] is not None
