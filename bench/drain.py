"""Draining: what one worker process delivers a second, against a bare client loop and general queues.

All post the same. The loop records nothing; the queues record that a job is done.
"""

import asyncio
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

import trustme
from sqlalchemy import text

from bench import stage
from bench.results import Measured
from relay.storage.engine import Database

IN_FLIGHT = 64

BARE = "a bare client loop"
RIVALS = ("pgqueuer", "procrastinate")
WANTED = {BARE: 0.65, "pgqueuer": 2.2, "procrastinate": 20.0}
WANTED_WITH_TLS = {BARE: 0.70}

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


async def waiting(db: Database, agent: str = "literature") -> int:
    """How many deliveries of the agent are not saved yet."""
    left = text("SELECT count(*) FROM deliveries WHERE agent = :agent AND state <> 'saved'")
    async with db.read() as connection:
        return int((await connection.execute(left, {"agent": agent})).scalar_one())


async def drain(directory: Path, cluster: stage.Cluster, rounds: int, count: int) -> list[Measured]:
    """PostgreSQL, `IN_FLIGHT` at a time, to a sink on loopback over HTTP and over HTTPS."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    certificate = directory / "localhost.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(certificate)
    plain = await _drain(directory, cluster, rounds, count, "http", "")
    secure = await _drain(directory, cluster, rounds, count, "https", str(certificate))
    return [*_measured("HTTP", plain, WANTED), *_measured("HTTPS", secure, WANTED_WITH_TLS)]


def _measured(name: str, seen: dict[str, list[float]], wanted: dict[str, float]) -> list[Measured]:
    return [
        Measured(f"drain, one worker, {name}", rival, "deliveries/s", seen["relay"], seen[rival], wanted=ratio)
        for rival, ratio in wanted.items()
    ]


async def _drain(
    directory: Path, cluster: stage.Cluster, rounds: int, count: int, scheme: str, certificate: str
) -> dict[str, list[float]]:
    """Rates by who delivered."""
    place = directory / scheme
    place.mkdir()
    seen: defaultdict[str, list[float]] = defaultdict(list)
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
            rates = {BARE: await _said("bench.bare_loop", origin, count, IN_FLIGHT, directory / "ca.pem")}
            if not certificate:
                for rival in RIVALS:
                    rates[rival] = await _said("bench.rivals", rival, origin, count, IN_FLIGHT, cluster.database())
            await backlog(world, f"d{number}", count, number)
            rates["relay"] = await _drained(world, db, count)
            if number:  # the first round warms everything up
                for name, rate in rates.items():
                    seen[name].append(rate)
    return seen


async def _drained(world: stage.World, db: Database, count: int) -> float:
    """Deliveries a second, from the worker's first look to the last one saved."""
    async with stage.relay(world.config, command="work"):
        started = time.perf_counter()
        while await waiting(db):
            await asyncio.sleep(0.05)
        return count / (time.perf_counter() - started)


async def _said(module: str, *arguments: object) -> float:
    """The rate that a program of this package prints, run as a process of its own."""
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *map(str, arguments),
        cwd=stage.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, problems = await started.communicate()
    if started.returncode:
        raise RuntimeError(f"{module}: {problems.decode()[-2000:]}")
    return float(out)
