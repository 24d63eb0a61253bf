"""SIGTERM during a slow POST: what can be finished is finished, the rest is given back at once."""

import asyncio

import pytest

from tests.support.processes import Process
from tests.support.scene import Scene, SceneAt
from tests.support.specialist import Held, Specialist, acknowledge, answering, first

pytestmark = pytest.mark.crash


async def test_within_the_grace(scene_at: SceneAt):
    """The attempt under way is finished and saved, its caller gets the 201, and the process ends with 0."""
    held = Held()
    async with Specialist(held) as specialist, scene_at(specialist.origin) as scene:
        gateway = await scene.serve()
        await gateway.workbench.record("t1")
        async with asyncio.TaskGroup() as callers:
            rating = callers.create_task(gateway.workbench.rate("t1", wait="wait=10"))
            await specialist.wait_for_posts(1)
            gateway.terminate()
            await gateway.logged("stopping")
            held.let_go()
        assert rating.result().status == 201
        assert await gateway.ended() == 0
        assert (await scene.stored())["state"] == "saved"
        assert [a["outcome"] for a in await scene.attempts()] == ["saved"]
        assert len(specialist.posts) == 1


async def test_a_gateway_past_the_grace(scene_at: SceneAt):
    """The claim is given back with what is known of the attempt, the process ends with 0, and the next one saves."""
    held = Held()
    async with Specialist(held) as specialist, scene_at(specialist.origin, grace=0.3) as scene:
        gateway = await scene.serve()
        await gateway.workbench.record("t1")
        assert (await gateway.workbench.rate("t1", wait="respond-async")).status == 202
        await specialist.wait_for_posts(1)
        await given_back(scene, gateway)

        held.let_go()
        specialist.behave = acknowledge
        await scene.work()
        stored = await scene.reached("saved")
        assert [a["outcome"] for a in await scene.attempts()] == ["released", "saved"]
        assert [r.body for r in specialist.posts] == [stored["payload"]] * 2


async def test_a_worker_past_the_grace(scene_at: SceneAt):
    """The same for a worker, whose attempt was not the first."""
    held = Held()
    async with Specialist(first(answering(503), held)) as specialist, scene_at(specialist.origin, grace=0.3) as scene:
        gateway, worker = await asyncio.gather(scene.serve("--no-worker"), scene.work())
        await gateway.workbench.record("t1")
        assert (await gateway.workbench.rate("t1", wait="respond-async")).status == 202
        await specialist.wait_for_posts(2)
        await given_back(scene, worker)

        held.let_go()
        specialist.behave = acknowledge
        await scene.work()
        stored = await scene.reached("saved")
        assert [a["outcome"] for a in await scene.attempts()] == ["retry", "released", "saved"]
        assert [r.body for r in specialist.posts] == [stored["payload"]] * 3


async def given_back(scene: Scene, process: Process) -> None:
    """Stop the process: when it has ended, nobody waits for a lease."""
    process.terminate()
    assert await process.ended() == 0
    released = await scene.stored()
    assert (released["state"], released["claim_token"], released["lease_until"]) == ("pending", None, None)
    attempt = (await scene.attempts())[-1]
    assert (attempt["outcome"], bool(attempt["ambiguous"])) == ("released", True)
