"""What a worker does beside delivering, by the configuration alone."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from relay.config import load
from relay.retention.housekeeping import ACTOR, Housekeeping
from relay.retention.pruning import Pruning
from tests.retention.conftest import Kept
from tests.support.gateway import gateway, write_config
from tests.support.issuer import TestIssuer
from tests.support.logs import logging_to_memory

POLICY = """
[retention]
days = 30
events_days = 1
sweep_seconds = 0.05
[retention.tenants.long]
days = 365
"""


async def test_a_worker_erases_and_throws_away_by_itself(kept: Kept, tmp_path: Path, database_url: str):
    """What is old by its tenant's policy, and old events; nobody has to ask."""
    await kept.outbox.change("DELETE FROM owners")  # keys are made for a database without owners only
    async with TestIssuer() as issuer:
        file = write_config(tmp_path, database_url, issuer, {})
        file.write_text(file.read_text() + POLICY)
        async with gateway(load(file, {}), issuer) as running:
            await kept.place_owner(1)
            await kept.place(tenant="long")
            old = await kept.place()
            event = "INSERT INTO events (tenant, owner, kind, ref, state, at) VALUES ('acme', 1, 'feedback', 1, 's', 1)"
            await kept.outbox.change(event)
            while not await kept.erased() or await running.rows("SELECT 1 FROM events WHERE at = 1"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    assert await kept.erased() == {old}
    [row] = await kept.outbox.rows("SELECT actor FROM audit_log WHERE action = 'retention.swept'")
    assert row["actor"] == ACTOR


async def test_a_database_that_is_away_is_waited_for(kept: Kept):
    """Housekeeping that fails is told in the log, and done the next time."""
    seq = await kept.place()
    awake: list[Any] = []
    keeping = Housekeeping(
        kept.sweep(), Pruning(kept.outbox.db, days=7), every_seconds=0.01, on_change=lambda: awake.append(1)
    )
    await kept.outbox.change("ALTER TABLE deliveries RENAME TO elsewhere")
    with logging_to_memory() as log:
        running = asyncio.ensure_future(keeping.run())
        while not log.events("housekeeping_failed"):  # noqa: ASYNC110 - a line of the log wakes nobody
            await asyncio.sleep(0.01)
        await kept.outbox.change("ALTER TABLE elsewhere RENAME TO deliveries")
        while not log.events("retention_swept"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert await kept.erased() == {seq}
    assert log.events("retention_swept")[0]["erased"] == 1
    assert awake == [1]


async def test_what_other_parts_throw_away(kept: Kept):
    """Each in its turn, again and again; one that fails keeps neither itself nor the others from the next time."""
    done: list[str] = []
    thrown = asyncio.Event()

    async def fail() -> None:
        done.append("failing")
        raise OSError("away")

    async def throw_away() -> None:
        done.append("sessions")
        if len(done) == 4:
            thrown.set()

    also = {"failing": fail, "sessions": throw_away}
    keeping = Housekeeping(kept.sweep(), Pruning(kept.outbox.db, days=7), every_seconds=0.01, also=also)
    with logging_to_memory() as log:
        running = asyncio.ensure_future(keeping.run())
        await thrown.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert done[:4] == ["failing", "sessions", "failing", "sessions"]
    assert log.events("housekeeping_failed")[0]["what"] == "failing"
