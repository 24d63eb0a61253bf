"""A worker that is watched: what it did is counted where it was done."""

import socket
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import until
from tests.support.scene import scene_at
from tests.support.specialist import Specialist
from tests.support.wire import request, send


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_worker_tells_what_it_has_done(tmp_path: Path, sqlite_database_url: str):
    """What the gateway took in and could not deliver, the worker does: its page counts the attempt and the time, and
    it answers nothing but those who watch it.
    """
    port = free_port()
    specialist = Specialist()
    await specialist.start()
    await specialist.stop()
    more = f"[telemetry]\nworker_port = {port}"
    async with scene_at(tmp_path, sqlite_database_url, specialist.origin, more=more) as scene:
        gateway = await scene.serve("--no-worker")
        await gateway.workbench.record("t1")
        await gateway.workbench.rate("t1", wait="respond-async")
        await scene.reached("pending")
        await specialist.start()
        worker = await scene.work()
        await worker.logged("watched")
        await scene.reached("saved")

        async def counted() -> dict[tuple[str, ...], float]:
            page = (await send(port, request("GET", "/metrics"))).body.decode()
            families = text_string_to_metric_families(page)
            values = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
            return values if ("feedback_relay_attempts_total", "literature", "saved") in values else {}

        found = await until(counted, "the attempt on the worker's page")
        assert found["feedback_relay_time_to_saved_seconds_count", "literature"] == 1
        assert found["feedback_relay_deliveries_settled_total", "literature", "saved"] == 1
        assert found["feedback_relay_deliveries", "literature", "pending"] == 0
        assert (await send(port, request("GET", "/healthz"))).status == 200
        assert (await send(port, request("GET", "/readyz"))).status == 200
        assert (await send(port, request("GET", "/api/feedback"))).status == 404
    await specialist.stop()
