"""What a scrape reads: how everything stands, by the indexes of what waits, and no oftener than it costs."""

from collections.abc import Sequence

import pytest
from sqlalchemy import text

from relay.identity.keys import KeyStatus
from relay.operators.standing import BREAKERS, OPEN_JOBS, Standing
from relay.storage.engine import Database
from relay.telemetry import Metrics
from tests.conftest import TurnableClock
from tests.delivery.conftest import Outbox
from tests.delivery.test_parking import BACKLOG


class Keys:
    """Two issuers: one with old keys that cannot be fetched any more, one that never had any."""

    def status(self) -> Sequence[KeyStatus]:
        return (
            KeyStatus("https://old.example.org", usable=True, keys=1, age_seconds=1200.0, problem="status_500"),
            KeyStatus("https://new.example.org", usable=False, keys=0, age_seconds=None, problem=None),
        )


class Scraped:
    def __init__(self, db: Database, outbox: Outbox, clock: TurnableClock) -> None:
        self.metrics = Metrics()
        self.standing = Standing(db, outbox.registry, Keys(), clock, self.metrics)  # type: ignore[arg-type]

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"feedback_relay_{name}", labels)


@pytest.fixture
def scraped(outbox: Outbox, clock: TurnableClock) -> Scraped:
    return Scraped(outbox.db, outbox, clock)


async def test_a_scrape_tells_how_everything_stands(scraped: Scraped, outbox: Outbox):
    """Backlogs by agent and state with the oldest of each, breakers, jobs, keys; agents with nothing have zeros."""
    for state in ("pending", "needs_owner", "saved"):
        delivery = await outbox.place(state=state)
        await outbox.change("UPDATE deliveries SET window_started_at = {now} - 90000 WHERE id = :id", id=delivery)
    await outbox.place(state="needs_owner")
    for agent, open_until in (("literature", "{now} + 60000"), ("chemistry", "{now} - 1")):
        await outbox.change(
            "INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, open_until)"
            f" VALUES ('{agent}', 1, 10, 10, {open_until})"
        )
    await outbox.change(
        "INSERT INTO jobs (id, tenant, kind, filter, actor, state, examined, results, position, upto, created_at,"
        " updated_at) VALUES ('j', 't', 'retry', '-', 'a', 'running', 0, '-', 0, 1, 1, {now} - 30000)"
    )
    await scraped.standing.refresh()
    assert scraped.value("deliveries", agent="literature", state="pending") == 1
    assert scraped.value("deliveries", agent="literature", state="needs_owner") == 2
    assert scraped.value("deliveries", agent="chemistry", state="pending") == 0
    assert scraped.value("deliveries", agent="literature", state="saved") is None
    assert 90 <= (scraped.value("deliveries_oldest_seconds", agent="literature", state="needs_owner") or 0) < 600
    assert scraped.value("breaker_state", agent="literature", state="open") == 1
    assert scraped.value("breaker_state", agent="chemistry", state="half_open") == 1
    assert scraped.value("jobs_open", kind="retry") == 1
    assert (scraped.value("jobs_idle_seconds", kind="retry") or 0) >= 30
    assert scraped.value("jwks_age_seconds", issuer="https://old.example.org") == 1200
    assert scraped.value("jwks_failing", issuer="https://old.example.org") == 1
    assert scraped.value("jwks_age_seconds", issuer="https://new.example.org") is None
    assert scraped.value("database_up") == 1
    assert scraped.value("deliveries_settled_total", agent="chemistry", state="exhausted") == 0


async def test_numbers_are_read_again_once_they_are_old(scraped: Scraped, outbox: Outbox, clock: TurnableClock):
    """Scrapes that come close together cost one reading; a later one sees what has changed."""
    await scraped.standing.refresh()
    await outbox.place()
    await scraped.standing.refresh()
    assert scraped.value("deliveries", agent="literature", state="pending") == 0
    clock.turn(2)
    await scraped.standing.refresh()
    assert scraped.value("deliveries", agent="literature", state="pending") == 1


async def test_a_database_that_is_away_is_told(outbox: Outbox, clock: TurnableClock):
    """What only the database knows is gone from the page, the rest stays."""
    nowhere = Database.open("postgresql://relay@127.0.0.1:1/nowhere")
    scraped = Scraped(nowhere, outbox, clock)
    await scraped.standing.refresh()
    await nowhere.close()
    assert scraped.value("database_up") == 0
    assert scraped.value("deliveries", agent="literature", state="pending") is None
    assert scraped.value("jwks_failing", issuer="https://old.example.org") == 1


async def test_no_scrape_looks_at_what_is_finished(outbox: Outbox):
    """Jobs are found by the index of those that are open; of breakers there is one for each agent."""
    postgresql = outbox.db.dialect == "postgresql"
    if postgresql:
        async with outbox.db.write() as connection:
            await connection.execute(text(BACKLOG))
        await outbox.change(
            "INSERT INTO jobs (id, tenant, kind, filter, actor, state, examined, results, position, upto, created_at,"
            " updated_at, finished_at) SELECT 'j' || n, 't', 'retry', '-', 'a', 'finished', 0, '-', 0, 1, 1, 1, 1"
            " FROM generate_series(1, 20000) AS n"
        )
        await outbox.change("ANALYZE")
    explain = "EXPLAIN" if postgresql else "EXPLAIN QUERY PLAN"
    rows = await outbox.rows(f"{explain} {OPEN_JOBS}")
    assert "ix_jobs_open" in "\n".join(str(list(row.values())[-1]) for row in rows)
    assert "deliveries" not in BREAKERS
