"""The health of agents is read by the indexes of what waits, however many rows are finished."""

from collections.abc import Mapping

import pytest
from sqlalchemy import text

from relay.operators.agents.health import Backlog, Breaker, Health, count_statement, healths
from tests.delivery.conftest import TENANT, Outbox
from tests.delivery.test_parking import BACKLOG

EVERYBODY: Mapping[str, str] = {}
ONE = {"tenant": TENANT, "agent": "literature"}


async def test_who_has_neither_backlog_nor_history_is_left_out(outbox: Outbox):
    """Nothing waits for chemistry and nothing was ever sent to it; its health is that of a new agent."""
    await outbox.place()
    await outbox.place(state="saved")
    await outbox.place(state="held", tenant="other")
    async with outbox.db.read() as connection:
        everybodys = await healths(outbox.db, connection)
        ours = await healths(outbox.db, connection, tenant=TENANT)
    assert list(everybodys) == ["literature"]
    assert (everybodys["literature"].backlog.totals, ours["literature"].backlog.totals) == (
        {"pending": 1, "held": 1},
        {"pending": 1},
    )
    assert everybodys["literature"].backlog.waiting == 2
    assert Health() == Health(Breaker(state="closed"), Backlog({}, None))


async def test_the_oldest_is_the_oldest_of_all_that_wait(outbox: Outbox):
    """Whatever state it waits in; what is finished does not count."""
    for state, since in (("pending", 30), ("held", 20), ("sending", 25), ("saved", 1)):
        delivery = await outbox.place(state=state)
        await outbox.change("UPDATE deliveries SET window_started_at = :at WHERE id = :id", at=since, id=delivery)
    async with outbox.db.read() as connection:
        assert (await healths(outbox.db, connection))["literature"].backlog.oldest == 20


async def test_a_breaker_tells_when_attempts_went_well_and_badly(outbox: Outbox):
    """Each moment stays until the next of its kind; a pause that is over is not told of."""

    async def breaker() -> Breaker:
        async with outbox.db.read() as connection:
            return (await healths(outbox.db, connection, agent=None))["literature"].breaker

    for _ in range(2):
        await outbox.place()
    first, second = await outbox.claim()
    await outbox.settle(first, "saved", status=201)
    saved = await breaker()
    assert (saved.state, saved.failures, saved.last_failure_at) == ("closed", 0, None)
    assert saved.last_success_at is not None
    await outbox.settle(
        second, "retry", reason="server_error", unhealthy=True, retry_after_ms=60_000, pauses_agent=True
    )
    failed = await breaker()
    assert (failed.last_success_at, failed.failures) == (saved.last_success_at, 1)
    assert failed.last_failure_at is not None
    assert failed.paused_until is not None
    await outbox.change("UPDATE agent_breakers SET paused_until = 1")
    assert (await breaker()).paused_until is None


@pytest.mark.parametrize("by", [EVERYBODY, ONE], ids=["everybody", "one"])
async def test_counting_looks_at_nothing_that_is_finished(outbox: Outbox, by: Mapping[str, str]):
    """Each of the three kinds by the index that holds nothing else."""
    postgresql = outbox.db.dialect == "postgresql"
    if postgresql:
        async with outbox.db.write() as connection:
            await connection.execute(text(BACKLOG))
        await outbox.change("ANALYZE")
    explain = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
    rows = await outbox.rows(f"{explain} {count_statement(by=by)}", **by)
    plan = [str(list(row.values())[-1]) for row in rows]
    looks = [line for line in plan if "deliveries" in line and ("Scan" in line or "SCAN" in line or "SEARCH" in line)]
    assert len(looks) >= 3
    assert not [line for line in looks if "ix_deliveries" not in line and "Bitmap Heap" not in line], "\n".join(plan)
