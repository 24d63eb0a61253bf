"""Whether years of finished rows make claiming and accepting slower."""

import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

from sqlalchemy import text

from bench import stage
from bench.results import Measured
from registry.model import AgentId
from registry.registrations import Registrations
from relay.delivery.store import BreakerLimits, Deliveries
from relay.storage.engine import Database

FINISHED = {
    "owners": """INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
        SELECT 'ok_old', 'human', 'bench', 'workbench', 'old', 'bench', 1 ON CONFLICT DO NOTHING""",
    "submissions": """INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version,
            protocol, rating, payload, sha256, created_at)
        SELECT o.id, 'acme', 'workbench', 'old-' || n, 'literature', 'old-' || n, 'client', 1, 'roblox-v1', 'up', 'x',
            'x', n
        FROM owners o, generate_series(CAST(:first AS int), CAST(:last AS int)) AS n WHERE o.owner_key = 'ok_old'""",
    "deliveries": """INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since,
            due_at, not_before, schedule_position, attempt_count, window_started_at, saved_at, evidence, version)
        SELECT 'feedback', s.seq, 'literature', 'acme', s.owner, false, 'saved', 1, 1, 0, 1, 1, 1, 1, 'confirmed', 2
        FROM submissions s LEFT JOIN deliveries d ON d.submission = s.seq WHERE d.id IS NULL""",
}
FEW = 10_000
AGENT = AgentId("literature")


async def history(directory: Path, cluster: stage.Cluster, rounds: int, rows: int) -> list[Measured]:
    """Two databases, one with `FEW` finished rows and one with ``rows``; each round looks at both by turns."""
    claims: list[list[float]] = [[], []]
    accepts: list[list[float]] = [[], []]
    async with AsyncExitStack() as stack:
        worlds = []
        for side, finished in enumerate((rows, FEW)):
            place = directory / str(side)
            place.mkdir()
            world = await stack.enter_async_context(stage.world(place, cluster.database(), queue=4096))
            await _fill(world, finished)
            worlds.append(world)
        ports = [await stack.enter_async_context(stage.relay(world.config)) for world in worlds]
        for number in range(rounds + 1):
            for side, world in enumerate(worlds):
                await stage.tasks(world, f"h{number}", 20_000)
                load = await stage.load(ports[side], world, f"h{number}", number, seconds=3, connections=8)
                claimed = await _claim(world)
                if number:
                    accepts[side].append(load.p50 * 1000)
                    claims[side].append(claimed)
    return [
        Measured(f"claiming with {rows:,} finished rows", f"with {FEW:,}", "ms", *claims, wanted=1.1, less=True),
        Measured(f"accepting with {rows:,} finished rows", f"with {FEW:,}", "ms", *accepts, wanted=1.2, less=True),
    ]


async def _fill(world: stage.World, rows: int) -> None:
    db = Database.open(world.database)
    for first in range(0, rows, 500_000):
        async with db.write() as connection:
            await connection.execute(text(FINISHED["owners"]))
            last = min(first + 500_000, rows) - 1
            await connection.execute(text(FINISHED["submissions"]), {"first": first, "last": last})
        async with db.read() as connection:
            await connection.execute(text("ANALYZE submissions"))
        async with db.write() as connection:
            await connection.execute(text(FINISHED["deliveries"]))
        async with db.read() as connection:
            await connection.execute(text("ANALYZE deliveries"))
    async with db.read() as connection:
        await connection.execute(text("VACUUM ANALYZE"))
    await db.close()


async def _claim(world: stage.World) -> float:
    """The median time of a claim of 100 among 3,000 that are due, in milliseconds."""
    db = Database.open(world.database)
    registry = Registrations(db.read)
    await registry.reload()
    deliveries = Deliveries(db, 3600, BreakerLimits(0.5, 10, 60, 30))
    async with db.write() as connection:
        await connection.execute(
            text(
                "UPDATE deliveries SET due_at = 1, state = 'pending' WHERE id IN"
                " (SELECT id FROM deliveries WHERE state IN ('pending', 'sending') ORDER BY id DESC LIMIT 3000)"
            )
        )
    times = []
    for _ in range(30):
        started = time.perf_counter()
        claimed = await deliveries.claim_due({AGENT: 100}, registry.snapshot, 0.0)
        times.append((time.perf_counter() - started) * 1000)
        if len(claimed) != 100:
            raise RuntimeError(f"{len(claimed)} of 100 were claimed")
    await db.close()
    return statistics.median(times)
