"""People who rate: each sends a rating again, under the same UUID, until somebody answers it with a 2xx."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import aiohttp

from tests.faults.facts import Refused
from tests.support.gateway import Answered, Caller, new_id
from tests.support.processes import GatewayProcess

AT_ONCE = 32
OWNERS = 7


class People:
    """What callers did and were told. They use any of the gateways that are open at the moment."""

    def __init__(self, chance: random.Random) -> None:
        self.ratings: dict[str, str] = {}
        """The UUID that was made up for each task, before anything was sent."""
        self.accepted: set[str] = set()
        self.refused: list[Refused] = []
        self._chance = chance
        self._gateways: list[GatewayProcess] = []
        self._some_are_open = asyncio.Event()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def go_to(self, *gateways: GatewayProcess) -> None:
        self._gateways = list(gateways)
        self._some_are_open.set() if gateways else self._some_are_open.clear()

    async def rate(self, count: int) -> None:
        """So many more ratings; returns when each has been accepted."""
        tasks = [f"t{len(self.ratings) + n}" for n in range(count)]
        self.ratings |= {task: new_id() for task in tasks}
        async with asyncio.TaskGroup() as group:
            for task in tasks:
                group.create_task(self._work_and_rate(task))

    async def _work_and_rate(self, task: str) -> None:
        async with self._turns:
            submission, sub = self.ratings[task], f"person{len(task) + int(task[1:]) % OWNERS}"
            recorded = await self._persist(lambda workbench: workbench.record(task, sub=sub))
            assert recorded.status in {200, 201}, recorded.body
            answered = await self._persist(
                lambda workbench: workbench.rate(task, sub=sub, id=submission, wait="respond-async")
            )
            assert answered.status in {200, 201, 202}, answered.body
            assert answered.json["id"] == submission
            self.accepted.add(submission)

    async def _persist(self, call: Callable[[Caller], Awaitable[Answered]]) -> Answered:
        while True:
            await self._some_are_open.wait()
            try:
                answered = await call(self._chance.choice(self._gateways).workbench)
            except (aiohttp.ClientError, IndexError):
                await asyncio.sleep(0.05)
                continue
            if answered.status < 500:
                return answered
            self.refused.append(Refused(status=answered.status, code=answered.code))
            await asyncio.sleep(self._chance.uniform(0.05, 0.2))
