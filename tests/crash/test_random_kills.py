"""Killing at random: whatever dies when, nothing is lost, nothing is doubled, nothing is saved unacknowledged."""

import asyncio
import json
import random
from collections import Counter, defaultdict

import pytest
from aiohttp import web

from relay.client import GetToken, RelayClient, UnreachableError
from tests.support.gateway import Caller, new_id
from tests.support.processes import GatewayProcess, Process, until
from tests.support.scene import Scene, SceneAt
from tests.support.specialist import Received, Specialist, acknowledge, answering

pytestmark = pytest.mark.crash

VICTIMS = ["gateway", "gateway", "worker", "worker", "both", "both"]
"""Who is killed, in any order: eight processes in all."""
RATED_BETWEEN_KILLS = 10
DEADLINE_SECONDS = 0.5
TIMING = {
    "deadline": DEADLINE_SECONDS,
    "lease": DEADLINE_SECONDS + 5,
    "schedule": json.dumps(["0s", *["100ms"] * 99]),  # no row comes to its end before the killing does
}
MOODS = {"acknowledge": 5, "dawdle": 2, "oversleep": 1, "refuse": 2, "mumble": 1, "mistake": 1}
"""What a moody specialist does with a request, and how often."""


class Moody:
    """Answers as it feels, until it is `calm`. ``acknowledged`` is every id that it has sent a matching 201 for."""

    def __init__(self, chance: random.Random) -> None:
        self.calm = False
        self.acknowledged: set[str] = set()
        self._chance = chance

    async def __call__(self, received: Received) -> web.StreamResponse:
        match "acknowledge" if self.calm else self._chance.choices([*MOODS], [*MOODS.values()])[0]:
            case "refuse":
                return await answering(503)(received)
            case "mumble":
                return await answering(200, {"id": received.json["id"], "saved": True})(received)
            case "mistake":
                return await answering(201, {"id": new_id(), "saved": True})(received)
            case "dawdle":
                await asyncio.sleep(self._chance.uniform(0, DEADLINE_SECONDS))
            case "oversleep":
                await asyncio.sleep(DEADLINE_SECONDS * 1.5)
        self.acknowledged.add(received.json["id"])
        return await acknowledge(received)


class Callers:
    """People who send their rating again, under the same UUID, until somebody answers."""

    def __init__(self) -> None:
        self._gateway: asyncio.Future[GatewayProcess] = asyncio.Future()

    def open(self, gateway: GatewayProcess) -> None:
        self._gateway.set_result(gateway)

    def close(self) -> None:
        self._gateway = asyncio.Future()

    async def rate(self, task: str, submission: str) -> None:
        while True:
            workbench = (await self._gateway).workbench
            address = f"http://127.0.0.1:{workbench.port}"
            async with RelayClient(address, self._token_of(workbench), deadline_seconds=1) as alice:
                try:
                    stored = await alice.submit(submission, task, "up", wait_seconds=1)
                except UnreachableError:
                    continue
            assert (stored.id, stored.task_id, stored.rating) == (submission, task, "up")
            assert stored.saved or not stored.final, stored
            return

    @staticmethod
    def _token_of(workbench: Caller) -> GetToken:
        async def token() -> str:
            return workbench.token()

        return token


@pytest.mark.timeout(300)
async def test_random_kills(scene_at: SceneAt):
    """A gateway and a worker are killed again and again, in the middle of whatever they do, with a specialist whose
    answers are right, late, wrong or absent.
    """
    chance = random.Random(random.randrange(2**32))  # noqa: S311 - the seed of a test
    moody = Moody(chance)
    submissions = {f"t{n}": new_id() for n in range(len(VICTIMS) * RATED_BETWEEN_KILLS)}
    async with Specialist(moody) as specialist, scene_at(specialist.origin, **TIMING) as scene:
        gateway, worker = await asyncio.gather(scene.serve("--no-worker"), scene.work())
        await asyncio.gather(*(gateway.workbench.record(task) for task in submissions))
        callers, unsent = Callers(), iter(submissions.items())
        callers.open(gateway)
        async with asyncio.TaskGroup() as group:
            for victim in chance.sample(VICTIMS, len(VICTIMS)):
                for _ in range(RATED_BETWEEN_KILLS):
                    group.create_task(callers.rate(*next(unsent)))
                await specialist.wait_for_posts(len(specialist.posts) + chance.randint(1, RATED_BETWEEN_KILLS))
                await asyncio.sleep(chance.uniform(0, 0.2))  # waits for nothing: the instant is to be any
                gateway, worker = await kill(scene, callers, gateway, worker, victim)
                assert await saved(scene) <= moody.acknowledged
        moody.calm = True
        await until(lambda: all_saved(scene), "the last rating to be saved")
        await look_back(scene, specialist, submissions)
        assert set(submissions.values()) <= moody.acknowledged


async def kill(
    scene: Scene, callers: Callers, gateway: GatewayProcess, worker: Process, victim: str
) -> tuple[GatewayProcess, Process]:
    """Kill one of the two, or both, and start anew what was killed."""
    dying = {"gateway": [gateway], "worker": [worker]}.get(victim, [gateway, worker])
    if gateway in dying:
        callers.close()
    await asyncio.gather(*(process.kill() for process in dying))
    reborn = await asyncio.gather(*(scene.work() if p is worker else scene.serve("--no-worker") for p in dying))
    for process in reborn:
        if isinstance(process, GatewayProcess):
            gateway = process
            callers.open(gateway)
        else:
            worker = process
    return gateway, worker


async def saved(scene: Scene) -> set[str]:
    rows = await scene.rows(
        "SELECT s.id FROM submissions s JOIN deliveries d ON d.submission = s.seq WHERE d.state = 'saved'"
    )
    return {row["id"] for row in rows}


async def all_saved(scene: Scene) -> bool:
    return not await scene.rows("SELECT 1 FROM deliveries WHERE state <> 'saved' LIMIT 1")


async def look_back(scene: Scene, specialist: Specialist, submissions: dict[str, str]) -> None:
    """One row for each rating; the same bytes in every request; no request without an attempt on record."""
    stored = await scene.rows("SELECT id, task, payload FROM submissions")
    assert sorted((row["task"], row["id"]) for row in stored) == sorted(submissions.items())
    sent: defaultdict[str, list[bytes]] = defaultdict(list)
    for request in specialist.posts:
        sent[request.headers["Idempotency-Key"]].append(request.body)
    assert {key: set(bodies) for key, bodies in sent.items()} == {row["id"]: {bytes(row["payload"])} for row in stored}
    attempts = await scene.rows(
        "SELECT s.id FROM attempts a JOIN deliveries d ON d.id = a.delivery JOIN submissions s ON s.seq = d.submission"
    )
    made = Counter(row["id"] for row in attempts)
    assert {key for key, bodies in sent.items() if len(bodies) > made[key]} == set()
