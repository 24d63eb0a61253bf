"""One rating sent many times at once, to two gateways that know nothing of each other."""

import asyncio

import pytest

from tests.support.gateway import new_id
from tests.support.scene import SceneAt
from tests.support.specialist import Specialist

pytestmark = pytest.mark.crash


async def test_fifty_at_once_against_two_gateways(postgres_scene_at: SceneAt):
    """One row, one id, one request to the specialist, and every caller is told of the same submission."""
    async with Specialist() as specialist, postgres_scene_at(specialist.origin) as scene:
        gateways = await asyncio.gather(scene.serve(), scene.serve())
        await gateways[0].workbench.record("t1")
        submission = new_id()
        answers = await asyncio.gather(
            *(gateways[n % 2].workbench.rate("t1", id=submission, comment="Well found.") for n in range(50))
        )
        assert {a.status for a in answers} <= {201, 202}
        kept = ("id", "agent", "taskId", "rating", "comment", "createdAt")
        assert len({tuple(a.json[name] for name in kept) for a in answers}) == 1
        assert all(a.json["saved"] == (a.status == 201) == (a.json["state"] == "saved") for a in answers)
        stored = await scene.reached("saved")
        assert stored["id"] == submission
        assert [r.body for r in specialist.posts] == [stored["payload"]]
        assert [a["outcome"] for a in await scene.attempts()] == ["saved"]


async def test_fifty_different_ones_of_one_task(postgres_scene_at: SceneAt):
    """Fifty UUIDs for one task: one is stored, and the others are told which."""
    async with Specialist() as specialist, postgres_scene_at(specialist.origin) as scene:
        gateways = await asyncio.gather(scene.serve(), scene.serve())
        await gateways[0].workbench.record("t1")
        answers = await asyncio.gather(*(gateways[n % 2].workbench.rate("t1") for n in range(50)))
        [winner] = [a for a in answers if a.status in {201, 202}]
        losers = [a for a in answers if a is not winner]
        assert {(a.status, a.code) for a in losers} == {(409, "already_submitted")}
        assert {a.json["existing"]["id"] for a in losers} == {winner.json["id"]}
        assert (await scene.reached("saved"))["id"] == winner.json["id"]
        assert len(specialist.posts) == 1
