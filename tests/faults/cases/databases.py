"""The database goes away, at each of the relay's commits, and comes back."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from tests.faults.case import DATABASE_AWAY, Case
from tests.faults.proxy import Point, Side
from tests.faults.stage import Stage, terminate_backends
from tests.faults.witness import Behaviour, Post, acknowledge, at_first, hang, saying
from tests.support.processes import until

CUTS = {"accept": 12, "claim": 8, "settle": 12, "expiry": 8}
"""How often a connection is cut at each commit, on each side, before the database stays."""

BUSY_SECONDS = 30
"""How long SQLite waits for a lock (relay.storage.engine)."""


def busy(chance: random.Random) -> Callable[[Post], Behaviour]:
    """A plan that takes a retry or two, so that there is something to claim."""
    return at_first([saying(503, lambda _: {})], chance)


def now_and_then(stage: Stage, point: Point, side: Side) -> Callable[[Point], Side | None]:
    """Cut at every third commit of this kind, so many times."""
    assert stage.proxy is not None
    cuts, seen = stage.proxy.cuts, 0

    def cut(passing: Point) -> Side | None:
        nonlocal seen
        if passing != point or cuts[point, side] >= min(CUTS[point], stage.size // 10):
            return None
        seen += 1
        return side if seen % 3 == 0 else None

    return cut


async def cut_at(point: Point, side: Side, stage: Stage) -> None:
    assert stage.proxy is not None
    await stage.open()
    stage.proxy.cut = now_and_then(stage, point, side)
    await stage.rate()
    await stage.come_to_rest()
    stage.faults += stage.proxy.cuts[point, side]


async def cut_at_expiry(side: Side, stage: Stage) -> None:
    """Processes die with all they have claimed; whoever buries those claims is cut off while it does."""
    assert stage.proxy is not None
    stage.witness.plan = lambda _: hang
    gateway = await stage.serve()
    stage.people.go_to(gateway)
    await stage.rate()
    await until(partial(_are_sending, stage, 16), "claims that can be lost")
    await gateway.kill()
    stage.witness.plan = lambda _: acknowledge
    stage.proxy.cut = now_and_then(stage, "expiry", side)
    await stage.work()
    await stage.come_to_rest()
    stage.faults += stage.proxy.cuts["expiry", side]


async def _are_sending(stage: Stage, count: int) -> bool:
    [row] = await stage.rows("SELECT count(*) AS total FROM deliveries WHERE state = 'sending'")
    return int(row["total"]) >= count


async def terminated(stage: Stage) -> None:
    """An administrator ends every connection, again and again, whatever is being done on it."""
    await stage.open()

    async def terminate() -> None:
        while True:
            stage.faults += await terminate_backends(stage)
            await asyncio.sleep(stage.chance.uniform(0.2, 0.6))

    async with asyncio.TaskGroup() as group:
        terminating = group.create_task(terminate())
        await stage.rate()
        terminating.cancel()


async def locked_now_and_then(stage: Stage) -> None:
    """Another process takes SQLite's write lock at any moment, and keeps it for up to a second."""
    await stage.open()

    async def lock() -> None:
        while True:
            async with stage.db.write():
                stage.faults += 1
                await asyncio.sleep(stage.chance.uniform(0.1, 1))
            await asyncio.sleep(stage.chance.uniform(0.05, 0.2))

    async with asyncio.TaskGroup() as group:
        locking = group.create_task(lock())
        await stage.rate()
        await stage.come_to_rest()
        locking.cancel()


async def locked_for_long(stage: Stage) -> None:
    """Another process keeps the write lock for longer than SQLite waits: in the midst of accepting, of claims, of
    settles, and while leases run out.
    """
    await stage.open()
    await stage.rate(stage.size // 2)
    async with asyncio.TaskGroup() as group:
        async with stage.db.write():
            stage.faults += 1
            group.create_task(stage.rate(stage.size - stage.size // 2))
            await asyncio.sleep(BUSY_SECONDS + 4)
        if not stage.people.refused:
            stage.breaches.append("nobody was told that the database cannot be had")


POINTS: tuple[Point, ...] = ("accept", "claim", "settle")
SIDES: tuple[Side, ...] = ("before", "after")

CASES = (
    *(
        Case(
            name=f"{point}-cut-{side}",
            about=f"the connection breaks {side} the commit of a{'n' * (point == 'accept')} {point}"
            f"{' reaches the server' if side == 'before' else ', and its answer is lost'}",
            act=partial(cut_at, point, side),
            engines=("postgresql",),
            plan=busy,
            behind_proxy=True,
            excused=DATABASE_AWAY,
        )
        for point in POINTS
        for side in SIDES
    ),
    *(
        Case(
            name=f"expiry-cut-{side}",
            about=f"the connection breaks {side} a lost claim is buried",
            act=partial(cut_at_expiry, side),
            full=200,
            short=40,
            engines=("postgresql",),
            behind_proxy=True,
            excused=DATABASE_AWAY,
            settings={"in_flight": 200},
        )
        for side in SIDES
    ),
    Case(
        name="terminated",
        about="every connection is ended by pg_terminate_backend, again and again",
        act=terminated,
        engines=("postgresql",),
        plan=busy,
        excused=DATABASE_AWAY,
    ),
    Case(
        name="locked",
        about="another process locks the file at any moment, for up to a second",
        act=locked_now_and_then,
        engines=("sqlite",),
        plan=busy,
        full=500,
    ),
    Case(
        name="locked-long",
        about=f"another process locks the file for longer than the {BUSY_SECONDS} s that SQLite waits",
        act=locked_for_long,
        engines=("sqlite",),
        plan=busy,
        excused=DATABASE_AWAY,
        full=200,
        short=0,
    ),
)
