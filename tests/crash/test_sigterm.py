"""SIGTERM during a slow POST: what can be finished is finished, the rest is given back at once."""

import asyncio

import pytest

from tests.support.gateway import new_id
from tests.support.processes import Process
from tests.support.scene import Scene, SceneAt
from tests.support.specialist import Held, Specialist, acknowledge, answering

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


@pytest.mark.parametrize("command", ["serve", "work"])
async def test_past_the_grace(scene_at: SceneAt, command: str):
    """The claim is given back with what is known of the attempt, the process ends with 0, and the next one saves."""
    async with Specialist(answering(503)) as specialist, scene_at(specialist.origin, grace=0.3) as scene:
        held = Held()
        process = await posting(scene, specialist, held, command)
        process.terminate()
        assert await process.ended() == 0
        released = await scene.stored()
        assert (released["state"], released["claim_token"], released["lease_until"]) == ("pending", None, None)
        attempt = (await scene.attempts())[-1]
        assert (attempt["outcome"], bool(attempt["ambiguous"])) == ("released", True)

        held.let_go()
        specialist.behave = acknowledge
        await scene.work()
        await scene.reached("saved")
        assert [a["outcome"] for a in await scene.attempts()][-2:] == ["released", "saved"]
        assert {r.body for r in specialist.posts} == {released["payload"]}


async def posting(scene: Scene, specialist: Specialist, held: Held, command: str) -> Process:
    """A process in the middle of a POST: a gateway in the first attempt, or a worker in the second."""
    if command == "serve":
        specialist.behave = held
    gateway = await scene.serve("--no-worker")
    await gateway.workbench.record("t1")
    answered = await gateway.workbench.rate("t1", id=new_id(), wait="respond-async")
    assert answered.status == 202
    if command == "serve":
        await specialist.wait_for_posts(1)
        return gateway
    await scene.reached("pending")
    specialist.behave = held
    worker = await scene.work()
    await specialist.wait_for_posts(2)
    await gateway.kill()
    return worker
