"""One task rated many times at once, through two gateways that know nothing of each other."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.gateway import Answered, new_id
from tests.support.processes import GatewayProcess
from tests.support.scene import SceneAt
from tests.support.specialist import Specialist

pytestmark = pytest.mark.crash


async def test_fifty_at_once_against_two_gateways(postgres_scene_at: SceneAt):
    """Of fifty identical posts, and of fifty that differ in nothing but the UUID, one is stored and sent, and all
    callers are told of that one.
    """
    async with Specialist() as specialist, postgres_scene_at(specialist.origin) as scene:
        gateways = await asyncio.gather(scene.serve(), scene.serve())
        for task in ("t1", "t2"):
            await gateways[0].workbench.record(task)
        submission = new_id()
        winner = same(await fifty(gateways, "t1", [submission] * 50))
        assert winner == submission
        rival = of_rivals(await fifty(gateways, "t2", [new_id() for _ in range(50)]))

        stored = await scene.rows("SELECT s.id, d.state FROM submissions s JOIN deliveries d ON d.submission = s.seq")
        assert {(row["id"], row["state"]) for row in stored} == {(submission, "saved"), (rival, "saved")}
        assert len(stored) == 2
        assert [r.json["id"] for r in specialist.posts] == [submission, rival]


async def fifty(gateways: Sequence[GatewayProcess], task: str, ids: Sequence[str]) -> list[Answered]:
    """Send them all at once, to either gateway in turn."""
    rates = (gateways[n % 2].workbench.rate(task, id=one, comment="Well found.") for n, one in enumerate(ids))
    return await asyncio.gather(*rates)


def same(answers: Sequence[Answered]) -> str:
    """The id of the one submission that every caller is told of."""
    assert {a.status for a in answers} <= {201, 202}
    assert all(a.json["saved"] == (a.status == 201) == (a.json["state"] == "saved") for a in answers)
    kept = ("id", "agent", "taskId", "rating", "comment", "createdAt")
    [told] = {tuple(a.json[name] for name in kept) for a in answers}
    return str(told[0])


def of_rivals(answers: Sequence[Answered]) -> str:
    """The id of the one that was stored, which all the others are told of."""
    [winner] = [a for a in answers if a.status in {201, 202}]
    losers = [a for a in answers if a is not winner]
    assert {(a.status, a.code) for a in losers} == {(409, "already_submitted")}
    assert {a.json["existing"]["id"] for a in losers} == {winner.json["id"]}
    return str(winner.json["id"])
