"""Fairness: the pace of a healthy agent beside twenty that take requests and never answer, against its pace alone."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from sqlalchemy import text

from bench import stage
from bench.drain import backlog, waiting
from bench.results import Measured
from relay.storage.engine import Database

STALLED = 20
IN_FLIGHT = 16
"""Of each agent, as configured by default."""

OF_THE_STALLED = """UPDATE deliveries SET agent = 'stalled' || (id % :agents)
    WHERE submission IN (SELECT seq FROM submissions WHERE task LIKE CAST(:run AS text) || '-%')"""
AT_REST = (
    "UPDATE deliveries SET state = 'abandoned' WHERE agent <> 'literature' AND state = 'pending'",
    "UPDATE deliveries SET lease_until = lease_until + 86400000 WHERE agent <> 'literature' AND state = 'sending'",
)
"""What the stalled ones have left of a round takes no part in the next."""


async def stalled(directory: Path, cluster: stage.Cluster, rounds: int, count: int) -> list[Measured]:
    """One worker on PostgreSQL; every agent has a backlog; the stalled ones keep all they may have in flight."""
    alone: list[float] = []
    beside: list[float] = []
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(stage.server("sink", directory))
        silent = await stack.enter_async_context(stage.server("silent", directory))
        agents = {"literature": f"http://localhost:{sink}"}
        agents |= {f"stalled{n}": f"http://localhost:{silent}" for n in range(STALLED)}
        world = await stack.enter_async_context(
            stage.world(
                directory,
                cluster.database(),
                agents=agents,
                in_flight=IN_FLIGHT,
                deadline=30,
                lease=90,
                schedule='["0s", "1h"]',
            )
        )
        db = Database.open(world.database)
        stack.push_async_callback(db.close)
        for number in range(rounds + 1):
            pace_alone = await _pace(world, db, count, 2 * number)
            await backlog(world, f"s{number}", STALLED * IN_FLIGHT * 4, 2 * number + 100_001)
            async with db.write() as connection:
                await connection.execute(text(OF_THE_STALLED), {"run": f"s{number}", "agents": STALLED})
            pace_beside = await _pace(world, db, count, 2 * number + 1)
            async with db.write() as connection:
                for statement in AT_REST:
                    await connection.execute(text(statement))
            if number:  # the first round warms everything up
                alone.append(pace_alone)
                beside.append(pace_beside)
    return [Measured("a healthy agent beside 20 stalled ones", "alone", "deliveries/s", beside, alone, wanted=0.8)]


async def _pace(world: stage.World, db: Database, count: int, number: int) -> float:
    await backlog(world, f"h{number}", count, number)
    async with stage.relay(world.config, command="work"):
        started = time.perf_counter()
        while await waiting(db, "literature"):
            await asyncio.sleep(0.05)
        return count / (time.perf_counter() - started)
