"""SIGKILL while a bulk job is worked off: what it has done stays done, and the next process does the rest, once."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text

from relay.operators.jobs.runner import BATCH
from tests.support.processes import GatewayProcess, until
from tests.support.scene import Scene, SceneAt
from tests.support.specialist import Specialist, answering

pytestmark = pytest.mark.crash

COUNT = 2 * BATCH + 50

COPIES = """
INSERT INTO {table} ({names})
SELECT {values} FROM {table} AS one CROSS JOIN generate_series(1, :count) AS n
"""


async def copied(scene: Scene, table: str, count: int, **changed: str) -> None:
    """So many copies of the table's only row, with some columns made anew (SQL; ``n`` counts)."""
    [row] = await scene.rows(f"SELECT * FROM {table}")
    values = {name: changed.get(name, f"one.{name}") for name in row if changed.get(name) != ""}
    statement = COPIES.format(table=table, names=", ".join(values), values=", ".join(values.values()))
    async with scene.db.write() as connection:
        await connection.execute(text(statement), {"count": count})


async def exhausted(scene: Scene, gateway: GatewayProcess) -> None:
    """Ratings of one person whose schedules are used up."""
    await gateway.workbench.record("t0")
    assert (await gateway.workbench.rate("t0")).json["state"] == "rejected"
    fresh = "lpad(to_hex(n), 8, '0') || '-0000-4000-8000-000000000000'"
    await copied(scene, "submissions", COUNT - 1, seq="", id=fresh, task="'t' || n")
    async with scene.db.write() as connection:
        await connection.execute(text("UPDATE deliveries SET state = 'exhausted'"))
    await copied(scene, "deliveries", COUNT - 1, id="", submission="one.submission + n")


async def asked(gateway: GatewayProcess, method: str, path: str, body: object = None) -> dict[str, Any]:
    token = gateway.workbench.token("olga", "operator:read operator:write")
    answered = await gateway.workbench.call(method, path, body, token=token)
    assert answered.status in {200, 201}, answered.body
    return answered.json


async def test_a_job_outlives_the_process_that_works_on_it(postgres_scene_at: SceneAt):
    """Killed in the second batch, which waits for a delivery that somebody else holds: the first batch is done and the
    second is not begun. The next process carries on; every submission is reopened and told of exactly once.
    """
    async with Specialist(answering(422)) as specialist, postgres_scene_at(specialist.origin) as scene:
        gateway = await scene.serve("--no-worker")
        await exhausted(scene, gateway)
        await gateway.kill()
        async with scene.db.write() as connection:
            held = (
                "SELECT 1 FROM deliveries WHERE submission = (SELECT max(submission) - :n FROM deliveries) FOR UPDATE"
            )
            await connection.execute(text(held), {"n": COUNT - BATCH - 1})
            worker = await scene.serve("--worker")
            body = {"kind": "retry", "filter": {"state": "exhausted"}, "why": "They are back.", "dryRun": False}
            job = (await asked(worker, "POST", "/api/operator/jobs", body))["id"]
            await scene.blocked()
            shown = await asked(worker, "GET", f"/api/operator/jobs/{job}")
            assert (shown["state"], shown["examined"]) == ("running", BATCH)
            await worker.kill()
            await scene.forget_blocked()
        other = await scene.serve("--worker")

        async def finished() -> bool:
            return (await asked(other, "GET", f"/api/operator/jobs/{job}"))["state"] == "finished"

        await until(finished, "a finished job")
        shown = await asked(other, "GET", f"/api/operator/jobs/{job}")
        assert (shown["examined"], shown["results"]) == (COUNT, {"reopened": COUNT})
        told = Counter(row["ref"] for row in await scene.rows("SELECT ref FROM events WHERE state = 'pending'"))
        assert set(told.values()) == {1}
        assert len(told) == COUNT
