"""SIGKILL at each instant between a rating's arrival and its being saved: nothing is lost, nothing is doubled.

Every test stops the process exactly where its name says, by holding what comes next, and kills it there.
"""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import aiohttp
import pytest

from tests.support.gateway import Answered, new_id
from tests.support.peers import Line, serve
from tests.support.processes import until
from tests.support.receiving import ReceivingSpecialist
from tests.support.scene import SceneAt
from tests.support.specialist import Held, Specialist, acknowledge, answering, first
from tests.support.token_endpoint import TokenEndpoint

pytestmark = pytest.mark.crash


async def broken_off(call: Awaitable[Answered]) -> None:
    """A call whose server died before it answered."""
    with pytest.raises(aiohttp.ClientError):
        await call


async def test_before_the_commit(scene_at: SceneAt):
    """Nothing was promised and nothing is there; the caller, left without an answer, repeats and is stored once."""
    async with Specialist() as specialist, scene_at(specialist.origin) as scene:
        # Without workers, whose claims would wait for the lock as well.
        gateway, other = await asyncio.gather(scene.serve("--no-worker"), scene.serve("--no-worker"))
        workbench = gateway.workbench
        await workbench.record("t1")
        submission = new_id()

        async def the_second_waits() -> bool:
            return b"feedback_relay_accept_queue_length 1.0" in (await workbench.call("GET", "/metrics")).body

        async with asyncio.TaskGroup() as callers, scene.locked():
            # Of two for one task the second waits for the next batch, which shows that the first is being written.
            for _ in range(2):
                callers.create_task(broken_off(workbench.rate("t1", id=submission)))
            await until(the_second_waits, "a rating that waits behind another")
            await scene.blocked()
            await gateway.kill()
            await scene.forget_blocked()
        assert await scene.rows("SELECT * FROM submissions") == []
        assert specialist.received == []

        assert (await other.workbench.rate("t1", id=submission)).status == 201
        assert (await scene.stored())["id"] == submission


async def test_between_commit_and_send(scene_at: SceneAt):
    """The claim died with the process before anything was sent: the next one sends the stored bytes, once."""
    async with (
        TokenEndpoint() as tokens,
        Specialist() as specialist,
        scene_at(specialist.origin, tokens=tokens) as scene,
    ):
        tokens.hang()
        gateway = await scene.serve()
        await gateway.workbench.record("t1")
        submission = new_id()
        async with asyncio.TaskGroup() as callers:
            callers.create_task(broken_off(gateway.workbench.rate("t1", id=submission, comment="Well found.")))
            await tokens.arrived.acquire()
            await gateway.kill()
        before = await scene.stored()
        assert (before["id"], before["state"]) == (submission, "sending")
        assert specialist.received == []

        tokens.recover()
        await scene.end_leases()
        gateway = await scene.serve()
        await scene.reached("saved")
        assert [r.body for r in specialist.posts] == [before["payload"]]
        assert [a["outcome"] for a in await scene.attempts()] == ["lost", "saved"]

        repeated = await gateway.workbench.rate("t1", id=submission, comment="Well found.")
        assert (repeated.status, repeated.json["id"], repeated.json["state"]) == (201, submission, "saved")
        assert (await scene.stored())["payload"] == before["payload"]
        assert len(specialist.posts) == 1


async def test_between_send_and_acknowledgement(tmp_path: Path, scene_at: SceneAt):
    """The specialist has stored it and nobody hears so: when the lease has ended, the same bytes go out again, the
    attempt before is on record as lost and ambiguous, and the specialist still has one row.
    """
    async with (
        ReceivingSpecialist(f"sqlite:///{tmp_path}/specialist.db") as specialist,
        scene_at(specialist.origin, deadline=1.5, lease=6.5) as scene,
    ):
        specialist.hold()
        gateway = await scene.serve()
        await gateway.workbench.record("t1")
        submission = new_id()
        assert (await gateway.workbench.rate("t1", id=submission, wait="respond-async")).status == 202
        await specialist.holding.wait()
        await gateway.kill()
        assert len(await specialist.rows()) == 1
        before = await scene.stored()
        assert before["state"] == "sending"

        specialist.release()
        await scene.serve()
        await scene.reached("saved")
        assert specialist.bodies == [before["payload"], before["payload"]]
        assert [row.rated.id for row in await specialist.rows()] == [submission]
        lost, saved = await scene.attempts()
        assert (lost["outcome"], bool(lost["ambiguous"]), lost["error_kind"]) == ("lost", True, "lease_expired")
        assert lost["duration_ms"] >= 6500
        assert (saved["outcome"], saved["status"], saved["number"]) == ("saved", 201, 2)


async def test_between_acknowledgement_and_settle(scene_at: SceneAt):
    """The process has read the 201 and cannot write it down: asked again, the specialist acknowledges again."""
    answer, read = asyncio.Event(), asyncio.Event()

    async def acknowledge_then_listen(line: Line) -> None:
        await line.receive()
        await answer.wait()
        await line.send(acknowledgement(submission))
        await line.hold()  # the relay closes the connection when it has read the answer
        read.set()

    submission = new_id()
    async with serve(acknowledge_then_listen, None) as peer, scene_at(f"http://localhost:{peer.port}") as scene:
        gateway = await scene.serve("--no-worker")
        await gateway.workbench.record("t1")
        assert (await gateway.workbench.rate("t1", id=submission, wait="respond-async")).status == 202
        await peer.arrived.acquire()
        async with scene.locked():
            answer.set()
            await read.wait()
            await scene.blocked()
            await gateway.kill()
            await scene.forget_blocked()
        before = await scene.stored()
        assert (before["state"], await scene.attempts()) == ("sending", [])

        await scene.end_leases()
        await scene.serve()
        await scene.reached("saved")
        assert [r.body for r in peer.received] == [before["payload"], before["payload"]]
        assert [a["outcome"] for a in await scene.attempts()] == ["lost", "saved"]


async def test_a_settle_that_has_reached_the_server_outlives_its_process(postgres_scene_at: SceneAt):
    """PostgreSQL carries out the settle of a client that has died since: saved, and nothing is sent again."""
    held = Held()
    async with Specialist(first(acknowledge, held)) as specialist, postgres_scene_at(specialist.origin) as scene:
        gateway = await scene.serve("--no-worker")
        for task in ("t0", "t1"):
            await gateway.workbench.record(task)
        # The first settle of a process has its statement parsed first, and the kill is not to meet the parsing.
        assert (await gateway.workbench.rate("t0", wait="wait=10")).json["saved"]
        assert (await gateway.workbench.rate("t1", wait="respond-async")).status == 202
        await specialist.wait_for_posts(2)
        async with scene.locked():
            held.let_go()
            await scene.blocked()
            await gateway.kill()
        await until(lambda: scene.rows("SELECT 1 FROM attempts HAVING count(*) = 2"), "what came of both")
        assert [a["outcome"] for a in await scene.attempts()] == ["saved", "saved"]
        assert await scene.rows("SELECT DISTINCT state FROM deliveries") == [{"state": "saved"}]
        assert len(specialist.posts) == 2


async def test_a_gateway_in_mid_post_beside_a_worker(scene_at: SceneAt):
    """The worker of another process finishes what the gateway had begun; no gateway has to come back for it."""
    held = Held()
    async with Specialist(held) as specialist, scene_at(specialist.origin) as scene:
        gateway, _ = await asyncio.gather(scene.serve("--no-worker"), scene.work())
        await gateway.workbench.record("t1")
        assert (await gateway.workbench.rate("t1", wait="respond-async")).status == 202
        await specialist.wait_for_posts(1)
        await gateway.kill()
        held.let_go()
        before = await scene.stored()
        assert before["state"] == "sending"

        specialist.behave = acknowledge
        await scene.end_leases()
        await scene.reached("saved")
        assert [r.body for r in specialist.posts] == [before["payload"], before["payload"]]
        assert [a["outcome"] for a in await scene.attempts()] == ["lost", "saved"]


async def test_a_worker_in_mid_post_beside_a_gateway(scene_at: SceneAt):
    """The gateway goes on showing the rating as being sent, and the next worker saves it when the lease has ended."""
    held = Held()
    async with Specialist(first(answering(503), held)) as specialist, scene_at(specialist.origin) as scene:
        gateway, worker = await asyncio.gather(scene.serve("--no-worker"), scene.work())
        await gateway.workbench.record("t1")
        submission = new_id()
        assert (await gateway.workbench.rate("t1", id=submission, wait="respond-async")).status == 202
        await specialist.wait_for_posts(2)
        await worker.kill()
        held.let_go()
        assert (await gateway.workbench.show(submission)).json["state"] == "sending"

        specialist.behave = acknowledge
        await scene.end_leases()
        await scene.work()
        saved = await gateway.workbench.until(submission, "saved")
        assert saved["id"] == submission
        assert [a["outcome"] for a in await scene.attempts()] == ["retry", "lost", "saved"]
        payload = (await scene.stored())["payload"]
        assert [r.body for r in specialist.posts] == [payload] * 3


def acknowledgement(submission: str) -> bytes:
    """The 201 that saves, and the end of its connection."""
    body = f'{{"id":"{submission}","saved":true}}'.encode()
    head = f"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + body
