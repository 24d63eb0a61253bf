"""Whether a million submissions behind the console's pages make them slower to open than a thousand."""

import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

from sqlalchemy import text

from bench.results import Measured
from bench.stage import Cluster
from relay.clock import SystemClock
from relay.storage import schema
from relay.storage.engine import Database
from tests.support.console import Browser, World, world

FEW = 1_000
OPENED = 20
"""How often a page is opened in a round."""

PAGES = {
    "the list of submissions": "/console/submissions",
    "the list of exhausted ones": "/console/submissions?state=exhausted",
    "the overview": "/console",
}

AGENT = """
[[agents]]
id = "literature"
name = "Literature"
origin = "https://literature.example.org"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "{issuer}"
  token_file = "bearer"
"""

# One rating every ninety seconds, until now. The newest thousand are alike in both databases, and every tenth of them
# was not saved: whoever looks for those looks for a hundred in a million.
FILL = {
    "owners": """INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
        SELECT 'ok_' || n, 'human', 'bench', 'workbench', CAST('bench-' || n AS bytea), 'bench', 1
        FROM generate_series(1, 1000) AS n ON CONFLICT DO NOTHING""",
    "submissions": """INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version,
            protocol, rating, comment, payload, sha256, created_at)
        SELECT o.id, :tenant, 'workbench', gen_random_uuid(), 'literature', 't-' || n, 'client', 1, 'roblox-v1',
            CASE WHEN n % 3 = 0 THEN 'down' ELSE 'up' END, CASE WHEN n % 4 = 0 THEN 'what was said ' || n END,
            CAST('{}' AS bytea), 'x', CAST(:now AS bigint) - CAST(CAST(:last AS int) - n AS bigint) * 90000
        FROM generate_series(CAST(:first AS int), CAST(:last AS int)) AS n
        JOIN owners o ON o.owner_key = 'ok_' || (n % 1000 + 1)""",
    "deliveries": """INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since,
            due_at, not_before, schedule_position, attempt_count, window_started_at, saved_at, evidence, version)
        SELECT 'feedback', s.seq, 'literature', s.tenant, s.owner, false, n.state, s.created_at, s.created_at, 0, 1, 1,
            s.created_at, CASE WHEN n.state = 'saved' THEN s.created_at + 200 END, 'unchecked', 2
        FROM submissions s LEFT JOIN deliveries d ON d.submission = s.seq
        CROSS JOIN LATERAL (
            SELECT CASE WHEN s.seq > CAST(:last AS int) - 1000 AND s.seq % 10 = 7 THEN 'exhausted' ELSE 'saved' END
                AS state) AS n
        WHERE d.id IS NULL""",
    "attempts": """INSERT INTO attempts (delivery, number, cause, registration_version, started_at, duration_ms, phase,
            status, outcome, error_kind, ambiguous)
        SELECT d.id, 1, 'accept', 1, d.due_at, 20, 'body', CASE WHEN d.saved_at IS NULL THEN 503 ELSE 201 END,
            CASE WHEN d.saved_at IS NULL THEN 'retry' ELSE 'saved' END,
            CASE WHEN d.saved_at IS NULL THEN 'server_error' END, false
        FROM deliveries d""",
}


async def console(directory: Path, cluster: Cluster, rounds: int, rows: int) -> list[Measured]:
    """Two relays with a console, one over ``rows`` and one over `FEW`; each page of both is opened by turns."""
    times: dict[str, list[list[float]]] = {page: [[], []] for page in PAGES}
    async with AsyncExitStack() as stack:
        browsers = []
        for side, finished in enumerate((rows, FEW)):
            place = directory / str(side)
            place.mkdir()
            (place / "bearer").write_text("bench-secret-0123456789abcdef")
            (place / "bearer").chmod(0o600)
            url = cluster.database()
            db = Database.open(url)
            await schema.migrate(db)
            await db.close()
            made = await stack.enter_async_context(world(place, url, SystemClock(), more=AGENT))
            browser = await stack.enter_async_context(made.browser())
            await browser.sign_in()
            await _fill(made, finished)
            browsers.append(browser)
        for number in range(rounds + 1):
            for page, address in PAGES.items():
                taken = await _open(browsers, address)
                for side, each in enumerate(taken):
                    if number:
                        times[page][side].append(statistics.median(each))
    return [
        Measured(f"opening {page} with {rows:,} submissions", f"with {FEW:,}", "ms", *sides, wanted=1.5, less=True)
        for page, sides in times.items()
    ]


async def _fill(made: World, rows: int) -> None:
    """Before the first look, as a database that has grown over time is: analyzed, and with every page all-visible."""
    [session] = await made.rows("SELECT tenant FROM console_sessions")
    db = made.relay.db
    async with db.write() as connection:
        values = {"tenant": session["tenant"], "now": await db.now_ms(connection), "first": 1, "last": rows}
        for statement in FILL.values():
            await connection.execute(text(statement), values)
    async with db.read() as connection:
        await connection.execute(text("VACUUM ANALYZE"))


async def _open(browsers: list[Browser], address: str) -> list[list[float]]:
    """For each browser, how long it took each time until a page had arrived, in milliseconds."""
    taken: list[list[float]] = [[] for _ in browsers]
    for number in range(OPENED * len(browsers)):
        side = number % len(browsers)
        started = time.perf_counter()
        page = await browsers[side].get(address)
        taken[side].append((time.perf_counter() - started) * 1000)
        if page.status != 200:
            raise RuntimeError(f"{address} answered {page.status}")
    return taken
