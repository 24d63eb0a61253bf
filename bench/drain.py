"""Draining: what one worker process delivers a second, against a bare client loop that posts the same bodies."""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import trustme
from sqlalchemy import text

from bench import stage
from bench.results import Measured
from relay.storage.engine import Database

IN_FLIGHT = 64

BACKLOG = {
    "submissions": """INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version,
            protocol, rating, comment, payload, sha256, created_at)
        SELECT p.owner, 'acme', 'workbench', p.id, 'literature', p.task, 'client', 1, 'roblox-v1', 'up', NULL,
            convert_to('{"id":"' || p.id || '","taskId":"' || p.task || '","rating":"up"}', 'UTF8'), 'x', 1
        FROM (SELECT owner, task, CAST(:prefix AS text) || lpad(to_hex(seq), 12, '0') AS id FROM provenance
            WHERE task LIKE CAST(:run AS text) || '-%') AS p""",
    "deliveries": """INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since,
            due_at, not_before, schedule_position, attempt_count, window_started_at, evidence, version)
        SELECT 'feedback', s.seq, 'literature', 'acme', s.owner, false, 'pending', 1, 1, 0, 0, 0,
            {now}, 'unchecked', 1
        FROM submissions s LEFT JOIN deliveries d ON d.submission = s.seq WHERE d.id IS NULL""",
}


async def backlog(world: stage.World, run: str, count: int, number: int) -> None:
    """``count`` deliveries that are due."""
    await stage.tasks(world, run, count)
    db = Database.open(world.database)
    async with db.write() as connection:
        await connection.execute(text(BACKLOG["submissions"]), {"prefix": f"{number:08x}-0000-4000-8000-", "run": run})
        await connection.execute(db.sql(BACKLOG["deliveries"]))
    async with db.read() as connection:
        await connection.execute(text("ANALYZE"))
        await connection.execute(text("CHECKPOINT"))
    await db.close()


async def waiting(db: Database) -> int:
    async with db.read() as connection:
        return int(
            (await connection.execute(text("SELECT count(*) FROM deliveries WHERE state <> 'saved'"))).scalar_one()
        )


async def drain(directory: Path, cluster: stage.Cluster, rounds: int, count: int) -> list[Measured]:
    """PostgreSQL, `IN_FLIGHT` at a time, to a sink on loopback over HTTP and over HTTPS."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate = directory / "localhost.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    plain = await _drain(directory, cluster, rounds, count, "http", "")
    secure = await _drain(directory, cluster, rounds, count, "https", str(certificate))
    return [
        Measured("drain, one worker, HTTP", "a bare client loop", "deliveries/s", *plain, wanted=0.65),
        Measured("drain, one worker, HTTPS", "a bare client loop", "deliveries/s", *secure, wanted=0.70),
    ]


async def _drain(
    directory: Path, cluster: stage.Cluster, rounds: int, count: int, scheme: str, certificate: str
) -> tuple[list[float], list[float]]:
    place = directory / scheme
    place.mkdir()
    ours: list[float] = []
    theirs: list[float] = []
    async with AsyncExitStack() as stack:
        sink = await stack.enter_async_context(stage.server("sink", place, certificate=certificate))
        origin = f"{scheme}://localhost:{sink}"
        world = await stack.enter_async_context(
            stage.world(
                place,
                cluster.database(),
                agents={"literature": origin},
                ca_file=directory / "ca.pem",
                in_flight=IN_FLIGHT,
                schedule='["0s", "1h"]',
            )
        )
        db = Database.open(world.database)
        stack.push_async_callback(db.close)
        for number in range(rounds + 1):
            bare = await bare_loop(origin, count, directory / "ca.pem")
            await backlog(world, f"d{number}", count, number)
            drained = await _drained(world, db, count)
            if number:  # the first round warms everything up
                ours.append(drained)
                theirs.append(bare)
    return ours, theirs


async def _drained(world: stage.World, db: Database, count: int) -> float:
    """Deliveries a second, from the worker's first look to the last one saved."""
    async with stage.relay(world.config, command="work"):
        started = time.perf_counter()
        while await waiting(db):
            await asyncio.sleep(0.05)
        return count / (time.perf_counter() - started)


async def bare_loop(origin: str, count: int, ca_file: Path) -> float:
    """Posts a second by `IN_FLIGHT` loops on keep-alive connections, nothing recorded, in a process of its own."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.bare_loop",
        origin,
        str(count),
        str(IN_FLIGHT),
        str(ca_file),
        cwd=stage.ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await started.communicate()
    return float(out)
