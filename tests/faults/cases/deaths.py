"""Processes are killed (SIGKILL) at random."""

import asyncio
import random
from collections.abc import Callable

from tests.faults.case import Case
from tests.faults.cases.answers import LIES
from tests.faults.stage import Stage
from tests.faults.witness import Behaviour, Post, acknowledge, at_first, break_off, hang, reset, saying, too_late

WORKERS = 4
SUBMISSIONS_A_KILL = 20
"""There are no more kills than one for so many submissions."""


def moody(chance: random.Random) -> Callable[[Post], Behaviour]:
    """A plan: half of the ratings are met badly at first, in every way there is."""
    badly = at_first([saying(503, lambda _: {}), *LIES, reset, break_off, hang, too_late(1.3)], chance, most=1)
    return lambda post: acknowledge if post.id[-1] in "02468ace" else badly(post)


async def kill_workers(stage: Stage) -> None:
    """One of four workers at a time, and now and then the gateway, while anything waits."""
    gateway, *workers = await asyncio.gather(stage.serve("--no-worker"), *(stage.work() for _ in range(WORKERS)))
    stage.people.go_to(gateway)
    async with asyncio.TaskGroup() as group:
        rating = group.create_task(stage.rate())
        while stage.faults < stage.size // SUBMISSIONS_A_KILL and (not rating.done() or await stage.waiting()):
            await asyncio.sleep(stage.chance.uniform(0, 0.5))
            victim = stage.chance.randrange(WORKERS + 1)
            stage.faults += 1
            if victim == WORKERS:
                stage.people.go_to()
                await gateway.kill()
                gateway = await stage.serve("--no-worker")
                stage.people.go_to(gateway)
            else:
                await workers[victim].kill()
                workers[victim] = await stage.work()


async def kill_the_only_one(stage: Stage) -> None:
    """Gateway and worker are one process; it is killed and started again while anything waits."""
    process = await stage.serve()
    stage.people.go_to(process)
    async with asyncio.TaskGroup() as group:
        rating = group.create_task(stage.rate())
        while stage.faults < stage.size // SUBMISSIONS_A_KILL and (not rating.done() or await stage.waiting()):
            await asyncio.sleep(stage.chance.uniform(0.2, 1.5))
            stage.people.go_to()
            await process.kill()
            stage.faults += 1
            process = await stage.serve()
            stage.people.go_to(process)


CASES = (
    Case(
        name="workers-killed",
        about=f"SIGKILL at random among {WORKERS} workers and the gateway",
        act=kill_workers,
        full=5000,
        short=200,
        engines=("postgresql",),
        plan=moody,
    ),
    Case(
        name="serve-killed",
        about="SIGKILL of the one process that serves and works, again and again",
        act=kill_the_only_one,
        full=1000,
        short=100,
        engines=("sqlite",),
        plan=moody,
    ),
)
