"""Deliveries follow a decision in batches: beside accepting, settles and other decisions, and after a crash."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from sqlalchemy import text

from registry.model import AgentId, StaticBearer, TokenExchange, Version
from relay.delivery.parking import LOOK, WAITING, Moved, Parking
from relay.operators.agents import Agents
from tests.delivery.conftest import TENANT, Outbox, declaration

LITERATURE = AgentId("literature")
V1, V2 = Version(1), Version(2)
EXCHANGE = TokenExchange(
    issuer="https://login.example.org",
    client_id="workbench",
    token_endpoint="https://login.example.org/token",
    key_file="key",
    resource="https://literature.example.org",
)


@pytest.fixture
def parking(outbox: Outbox) -> Parking:
    """Moves two at a time."""
    return Parking(outbox.db, batch=2, poll_seconds=0.01)


@pytest.fixture
def stopping(outbox: Outbox, parking: Parking) -> Agents:
    """Decides, and moves no more than one batch behind it: as far as a process came before it died."""
    return Agents(outbox.db, parking, most_batches=1)


async def states(outbox: Outbox) -> Counter[str]:
    return Counter(row["state"] for row in await outbox.rows("SELECT state FROM deliveries"))


async def unfinished(outbox: Outbox) -> list[str]:
    return [r["id"] for r in await outbox.rows("SELECT id FROM agents WHERE parked_revision <> revision")]


async def taken_over(outbox: Outbox, parking: Parking) -> None:
    """What a worker's look does, once whoever was at it has not been heard of for long enough."""
    await outbox.change("UPDATE agents SET parking_until = 0 WHERE parking_until IS NOT NULL")
    for agent in await parking._adopt():
        await parking.park(agent)


async def test_a_backlog_is_moved_batch_by_batch(outbox: Outbox, parking: Parking):
    """More than a batch, and due at one and the same moment: each is moved once, counted, and told of."""
    for _ in range(7):
        await outbox.place()
    await outbox.change("UPDATE deliveries SET due_at = 5")
    agents = Agents(outbox.db, parking)
    outcome = await agents.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert (outcome.parked, outcome.freed, outcome.complete) == (7, 0, True)
    assert await states(outbox) == {"held": 7}
    assert await unfinished(outbox) == []
    outcome = await agents.resume(TENANT, LITERATURE, "ops", None)
    assert (outcome.parked, outcome.freed, outcome.complete) == (0, 7, True)
    told = [row["state"] for row in await outbox.rows("SELECT state FROM events ORDER BY seq")]
    assert told == ["held"] * 7 + ["pending"] * 7
    versions = {row["version"] for row in await outbox.rows("SELECT version FROM deliveries")}
    assert versions == {3}


async def test_what_has_not_been_moved_yet_is_not_sent(outbox: Outbox, stopping: Agents):
    """The decision has committed, most rows still say pending: none is claimed, on the schedule or for its owner."""
    deliveries = [await outbox.place() for _ in range(6)]
    outcome = await stopping.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert (outcome.parked, outcome.complete) == (2, False)
    assert await states(outbox) == {"held": 2, "pending": 4}
    await outbox.registry.reload()
    assert await outbox.claim() == []
    revision = outbox.registry.snapshot[LITERATURE].revision
    for delivery in deliveries:
        assert await outbox.deliveries.claim_one(delivery, "retry", revision, 0.0) is None


@pytest.mark.parametrize("decision", ["hold_version", "revoke", "propose"])
async def test_a_version_out_of_force_stops_what_has_not_been_moved(outbox: Outbox, stopping: Agents, decision: str):
    """Held for everybody, revoked, or a move proposed: no tenant's is claimed, moved or not."""
    for number in range(6):
        await outbox.place(tenant=f"tenant {number % 2}")
    if decision == "hold_version":
        await stopping.hold_version(LITERATURE, V1, "ops", "it leaks")
    elif decision == "revoke":
        await stopping.revoke(LITERATURE, "ops", "it leaks")
    else:
        await stopping.propose(declaration("literature", "https://moved.example.org"), "ops", "moved")
    await outbox.registry.reload()
    assert (await states(outbox))["pending"] == 4
    assert await outbox.claim() == []


async def test_a_worker_finishes_what_a_dead_process_left(outbox: Outbox, stopping: Agents, parking: Parking):
    """The decision stands; whoever looks next moves the rest, once nobody has been at it for long enough."""
    for _ in range(7):
        await outbox.place()
    await stopping.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert await unfinished(outbox) == ["literature"]
    await taken_over(outbox, parking)
    assert await states(outbox) == {"held": 7}
    assert await unfinished(outbox) == []
    assert len(await outbox.rows("SELECT 1 FROM events")) == 7
    await taken_over(outbox, parking)
    assert len(await outbox.rows("SELECT 1 FROM events")) == 7


async def test_the_look_of_a_worker_runs_by_itself(outbox: Outbox, stopping: Agents, parking: Parking):
    """From its start on it finds what was left; a failing look does not end it."""
    for _ in range(5):
        await outbox.place()
    await stopping.hold(TENANT, LITERATURE, "ops", "they are moving")
    await outbox.change("ALTER TABLE events RENAME TO events_gone")
    looking = asyncio.ensure_future(parking.run())
    try:
        while not await outbox.rows("SELECT 1 FROM agents WHERE parking_until > 0 AND id = 'literature'"):
            continue
        assert (await states(outbox))["pending"] == 3
        await outbox.change("ALTER TABLE events_gone RENAME TO events")
        while await unfinished(outbox):
            await outbox.change("UPDATE agents SET parking_until = 0 WHERE parking_until IS NOT NULL")
        assert await states(outbox) == {"held": 5}
    finally:
        looking.cancel()


async def test_whoever_is_at_it_is_left_to_it(outbox: Outbox, parking: Parking):
    """A decision says that its own process will move what waits: a look at the same moment leaves it alone."""
    await outbox.place()
    async with outbox.db.write() as connection:
        await connection.execute(text("UPDATE agents SET revision = revision + 1 WHERE id = 'literature'"))
        await parking.begin(connection, LITERATURE)
    assert "literature" not in await parking._adopt()
    await outbox.change("UPDATE agents SET parking_until = {now} - 1 WHERE id = 'literature'")
    first, second = await asyncio.gather(parking._adopt(), parking._adopt())
    assert sorted([*first, *second]).count("literature") == 1


async def test_a_crash_in_a_batch_leaves_all_of_it(outbox: Outbox, parking: Parking):
    """State and event commit together: a batch that cannot tell moves nothing, and is made good later."""
    for _ in range(3):
        await outbox.place()
    await outbox.change("ALTER TABLE events RENAME TO events_gone")
    outcome = await Agents(outbox.db, parking).hold(TENANT, LITERATURE, "ops", "they are moving")
    assert (outcome.parked, outcome.complete) == (0, False)
    assert outcome.agent.held_by == {TENANT}
    assert await states(outbox) == {"pending": 3}
    await outbox.change("ALTER TABLE events_gone RENAME TO events")
    await taken_over(outbox, parking)
    assert await states(outbox) == {"held": 3}


@pytest.mark.parametrize("last", ["hold", "resume"])
async def test_the_later_decision_wins(outbox: Outbox, parking: Parking, last: str):
    """Hold, resume and hold again, each while the one before is still moving rows: they end where the last one says."""
    for _ in range(40):
        await outbox.place()
    agents = Agents(outbox.db, parking)
    count = 3 if last == "hold" else 4
    async with asyncio.TaskGroup() as group:
        running = []
        for number in range(count):
            before = (await agents.snapshot())[LITERATURE].revision
            act = (
                agents.resume(TENANT, LITERATURE, "ops", None)
                if number % 2
                else agents.hold(TENANT, LITERATURE, "ops", "why")
            )
            running.append(group.create_task(act))
            while (await agents.snapshot())[LITERATURE].revision == before:
                continue
    assert running[-1].result().complete
    assert await states(outbox) == {"held" if last == "hold" else "pending": 40}
    assert await unfinished(outbox) == []


async def test_a_pass_of_an_earlier_decision_stops(outbox: Outbox, parking: Parking):
    """Having looked before a later decision, it moves nothing more, and does not call the later one's work done."""
    for _ in range(4):
        await outbox.place()
    earlier = (await outbox.agents.snapshot())[LITERATURE]
    async with outbox.db.write() as connection:
        await connection.execute(
            text(
                "INSERT INTO agent_holds (tenant, agent, held_at, held_by, why)"
                " VALUES ('acme', 'literature', 1, 'ops', 'why')"
            )
        )
        await connection.execute(text("UPDATE agents SET revision = revision + 1 WHERE id = 'literature'"))
    tally: Counter[str] = Counter()
    assert await parking._step(earlier, WAITING[0], (-1, 0)) is None
    assert not await parking._park(earlier, tally, None)
    assert (tally, await unfinished(outbox)) == (Counter(), ["literature"])
    assert await parking.park(LITERATURE) == Moved(4, 0, complete=True)


async def test_settles_and_claims_go_on_meanwhile(outbox: Outbox, parking: Parking):
    """Attempts that end while the rows are moved, saved or to be tried again, end where the hold puts them."""
    for _ in range(30):
        await outbox.place()
    claimed = await outbox.claim(literature=20)
    agents = Agents(outbox.db, parking)

    async def settle() -> None:
        for number, each in enumerate(claimed):
            await outbox.settle(each, "saved" if number % 2 else "retry", reason="server_error")

    async with asyncio.TaskGroup() as group:
        group.create_task(settle())
        await agents.hold(TENANT, LITERATURE, "ops", "they are moving")
    assert await states(outbox) == {"held": 20, "saved": 10}
    assert await unfinished(outbox) == []


async def test_other_credentials_change_who_has_to_be_present(outbox: Outbox, parking: Parking):
    """Where only the owner's own sign-in can act what waits goes to needs_owner, and back; what is in flight too."""
    waiting = [await outbox.place(ran_as="owner") for _ in range(3)]
    as_client = await outbox.place(ran_as="client")
    (claimed,) = await outbox.claim(literature=1)
    here = declaration("literature")
    agents = Agents(outbox.db, parking)
    await agents.propose(replace(here, credentials=(EXCHANGE, *here.credentials)), "ops", None)
    await agents.approve(LITERATURE, V2, "ops", None)
    assert (await outbox.settle(claimed, "retry", reason="server_error")).state == "needs_owner"
    assert [(await outbox.row(each))["state"] for each in waiting] == ["needs_owner"] * 3
    assert (await outbox.row(as_client))["state"] == "pending"
    await agents.approve(LITERATURE, V1, "ops", None)
    assert [(await outbox.row(each))["state"] for each in waiting] == ["pending"] * 3
    bearer = StaticBearer(issuer="https://login.example.org", client_id="workbench", token_file="bearer")
    assert here.credentials == (bearer,)


BACKLOG = """
WITH s AS (
    INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
        payload, sha256, created_at)
    SELECT 1, 'acme', 'workbench', 's' || n, 'literature', 't' || n, 'client', 1, 'roblox-v1', 'up', 'x', 'ab', 1
    FROM generate_series(1, 20000) AS n RETURNING seq)
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, 'literature', 'acme', 1, false, CASE WHEN seq % 100 = 0 THEN 'held' WHEN seq % 100 = 1 THEN
    'pending' WHEN seq % 100 = 2 THEN 'needs_owner' ELSE 'saved' END, 1, seq, 0, 0, 0, 1, 'unchecked', 1 FROM s
"""


@pytest.mark.parametrize(("kind", "index"), [(0, "due"), (1, "parked"), (2, "parked"), (3, "leases")], ids=str)
async def test_a_batch_is_found_by_the_index_of_what_waits(outbox: Outbox, kind: int, index: str):
    """Years of finished deliveries are not looked at, and what waits is not sorted again for each batch."""
    postgresql = outbox.db.dialect == "postgresql"
    if postgresql:
        async with outbox.db.write() as connection:
            await connection.execute(text(BACKLOG))
        await outbox.change("ANALYZE")
    look = LOOK.replace("{waiting}", WAITING[kind]).replace("{lock}", "FOR UPDATE OF d" if postgresql else "")
    explain = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
    rows = await outbox.rows(f"{explain} {look}", agent="literature", due_at=-1, id=0, batch=1000)
    plan = "\n".join(str(list(row.values())[-1]) for row in rows)
    assert f"ix_deliveries_{index}" in plan, plan
    assert "Seq Scan on deliveries" not in plan
