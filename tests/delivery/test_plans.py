"""How the databases go about the statements of the main path: by index, however much lies around.

Every statement that a relay really runs is noted and then explained: on PostgreSQL among twenty thousand deliveries
that are none of its business, for its own parameters and for any; on SQLite as it is planned without statistics,
which nothing collects there.
"""

import asyncio
import json
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.feedback.feed import Position
from relay.identity.model import OwnerTuple
from relay.storage.engine import Database
from relay.storage.express import Line, WritingThread
from tests.support.gateway import Gateway, new_id, small_world
from tests.support.specialist import Specialist, acknowledge, answering

ROWS: Final = 20_000
LARGE: Final = ("provenance", "submissions", "deliveries", "attempts", "events", "owners")
"""Tables that grow with use: none of them may be read from one end to the other."""
IN_FLIGHT: Final = "ix_deliveries_leases"
"""This index holds nothing but what is being sent: there is never much of that."""

BACKLOG: Final = {
    "agent_breakers": """
        INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, open_until)
        VALUES ('backlog', 1, 10, 10, {now} + 86400000)""",
    "owners": """
        INSERT INTO owners (owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
        SELECT 'ok_' || n, 'human', 'i', 'c', decode(md5(n::text), 'hex'), 'p', 1
        FROM generate_series(0, {rows} / 10) n""",
    "provenance": """
        INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task, conversation, answer,
            role, ran_as, status, created_at, finished_at)
        SELECT o.id, 'acme', 'workbench', CASE n % 2 WHEN 0 THEN 'backlog' ELSE 'chemistry' END, 1, 'task-' || n,
            'c-' || n % 1000, 'a-' || n % 5000, 'specialist', 'client', 'completed', 1, 1
        FROM generate_series(1, {rows}) n JOIN owners o ON o.owner_key = 'ok_' || n / 10""",
    "submissions": """
        INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol,
            rating, payload, sha256, created_at)
        SELECT owner, tenant, 'workbench', gen_random_uuid()::text, agent, task, ran_as, 1, 'roblox-v1', 'up',
            convert_to(repeat('x', 100), 'UTF8'), md5(task), 1
        FROM provenance""",
    "deliveries": """
        INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at,
            not_before, schedule_position, attempt_count, window_started_at, evidence, version)
        SELECT 'feedback', seq, agent, tenant, owner, false, 'pending', 1,
            CASE agent WHEN 'backlog' THEN 1 ELSE {now} + 86400000 END, 0, 1, 1, 1, 'unchecked', 1
        FROM submissions""",
    "attempts": """
        INSERT INTO attempts (delivery, number, cause, started_at, outcome, ambiguous)
        SELECT id, 1, 'schedule', 1, 'retry', false FROM deliveries""",
    "events": """
        INSERT INTO events (tenant, owner, kind, ref, state, at)
        SELECT tenant, owner, 'feedback', submission, state, 1 FROM deliveries""",
}
"""Half of it waits for a dead specialist, all due and none to be sent; half for another one, and is due tomorrow."""


@dataclass
class Noted:
    """The statements that a database was asked, each once, with the parameters of the last time."""

    statements: dict[str, Any] = field(default_factory=dict)

    def naming(self, *words: str) -> list[str]:
        return [statement for statement in self.statements if all(word in statement for word in words)]


class NotedConnection:
    """SQLite's own connection, and what it is asked."""

    def __init__(self, connection: sqlite3.Connection, noted: Noted) -> None:
        self._connection = connection
        self._noted = noted

    def execute(self, statement: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        self._noted.statements[statement] = parameters
        return self._connection.execute(statement, parameters)


@contextmanager
def noting(db: Database) -> Iterator[Noted]:
    """Note what the relay asks its database within the block."""
    noted = Noted()
    engines = {db._reader.sync_engine, db._writer.sync_engine}

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        if re.match(r"\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\b", statement):
            noted.statements[statement] = parameters

    async def rows(line: Line, statement: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        noted.statements[statement] = parameters
        return await asked(line, statement, parameters)

    async def run(thread: WritingThread, work: Callable[[Any], Any], seconds: float) -> Any:
        return await carried_out(thread, lambda connection: work(NotedConnection(connection, noted)), seconds)

    asked, carried_out = Line.rows, WritingThread.run
    Line.rows, WritingThread.run = rows, run  # type: ignore[method-assign]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield noted
    finally:
        Line.rows, WritingThread.run = asked, carried_out  # type: ignore[method-assign]
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


async def the_main_path(relay: Gateway, literature: Specialist) -> None:
    """Record, rate, wait out an outage, be refused, retry, and look at it from every side."""
    for task in ("t1", "t2", "t3"):
        await relay.record(task)
    await relay.rate("t1")
    await literature.stop()
    waiting, refused = new_id(), new_id()
    await relay.rate("t2", id=waiting, wait="respond-async")
    await relay.rate("t2", id=waiting, wait="respond-async")
    await literature.start()
    await relay.until(waiting, "saved")
    literature.behave = answering(422)
    await relay.rate("t3", id=refused)
    literature.behave = acknowledge
    await relay.call("POST", f"/api/feedback/{refused}/retry", token=relay.token(), headers={"Prefer": "wait=10"})
    await relay.until(refused, "saved")
    for path in (
        "/api/feedback",
        "/api/feedback?limit=1&state=saved&agent=literature&taskId=t1",
        f"/api/feedback/{waiting}",
        "/api/answers/a1/targets",
        "/api/conversations/c1/targets",
    ):
        assert (await relay.call("GET", path, token=relay.token())).status == 200
    alice = await relay.relay.owners.find(OwnerTuple("human", relay.issuer.url, "workbench", "alice"))
    assert alice is not None
    async for _ in relay.relay.feed.follow(alice.id, Position("0", 0, ""), idle=60):
        break


# PostgreSQL.


@dataclass(frozen=True)
class Scan:
    """One node of a plan that reads a table: by which index, whether as a whole, how many rows if it was run."""

    whole: bool
    table: str
    index: str
    rows: float


def scans(plan: Mapping[str, Any]) -> Iterator[Scan]:
    for child in plan.get("Plans", ()):
        yield from scans(child)
    if "Scan" not in plan["Node Type"]:
        return
    rows = plan.get("Actual Rows", 0) + plan.get("Rows Removed by Filter", 0)
    index = plan.get("Index Name", "")
    whole = not {"Index Cond", "Recheck Cond"} & plan.keys() and index != IN_FLIGHT
    yield Scan(whole, plan.get("Relation Name", ""), index, rows * plan.get("Actual Loops", 1))


async def explained(connection: AsyncConnection, options: str, statement: str, parameters: Any) -> list[Scan]:
    found = await connection.exec_driver_sql(f"EXPLAIN ({options}, FORMAT JSON) {statement}", parameters)
    plan = found.scalar_one()
    return list(scans((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]))


def numbered(statement: str) -> str:
    """The statement with the driver's named parameters as ``$1``, ``$2`` …, as a server prepares it."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    return re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", statement).replace("%%", "%")


@pytest.fixture
async def crowded(tmp_path: Path, postgres_database_url: str) -> AsyncIterator[tuple[Gateway, Specialist]]:
    """A relay whose PostgreSQL holds a long backlog of an agent that is not sent to."""
    agents = ("literature", "chemistry", "backlog")
    async with small_world(tmp_path, postgres_database_url, agents=agents) as (relay, specialists):
        db = relay.relay.db
        async with db.statement() as connection:
            for table, statement in BACKLOG.items():
                await connection.execute(db.sql(statement.replace("{rows}", str(ROWS))))
                await connection.execute(text(f"ANALYZE {table}"))  # or checks of references go through what they fill
        yield relay, specialists["literature"]


async def test_postgresql_reads_no_large_table_as_a_whole(crowded: tuple[Gateway, Specialist]):
    """Every statement of the main path, planned for its own parameters and for any: no table that grows is scanned."""
    relay, literature = crowded
    db = relay.relay.db
    with noting(db) as noted:
        await the_main_path(relay, literature)
    assert len(noted.statements) > 20
    async with db.read() as connection:
        generic = (await connection.execute(text("SHOW server_version_num"))).scalar_one() >= "160000"
        for statement, parameters in noted.statements.items():
            plans = [await explained(connection, "COSTS", statement, parameters)]
            if generic:
                plans.append(await explained(connection, "GENERIC_PLAN", numbered(statement), None))
            for plan in plans:
                assert [scan for scan in plan if scan.whole and scan.table in LARGE] == [], statement


async def test_postgresql_claims_without_looking_at_what_is_not_due(crowded: tuple[Gateway, Specialist]):
    """Three are due among twenty thousand that are not to be sent: found by their index, with a few rows looked at."""
    relay, _ = crowded
    db = relay.relay.db
    rows = "SELECT id FROM deliveries WHERE agent = 'chemistry' ORDER BY id LIMIT 3"
    with noting(db) as noted:
        await relay.relay.worker.work_once()
    [claim] = noted.naming("probes AS", "taken AS")
    async with db._writer.connect() as connection:
        await connection.exec_driver_sql(f"UPDATE deliveries SET due_at = 1 WHERE id IN ({rows})")
        plan = await explained(connection, "ANALYZE", claim, noted.statements[claim])
        taken = await connection.exec_driver_sql("SELECT count(*) FROM deliveries WHERE state = 'sending'")
        assert taken.scalar_one() == 3
        await connection.rollback()
    looked_at = [scan for scan in plan if scan.table == "deliveries"]
    assert "ix_deliveries_due" in {scan.index for scan in looked_at}
    assert sum(scan.rows for scan in looked_at) <= 10
    assert {scan.index for scan in plan if scan.table == "submissions"} == {"pk_submissions"}


ACCEPT: Final = {
    "provenance": {"uq_provenance_owner_task_agent"},
    "submissions": {"uq_submissions_owner_id", "uq_submissions_owner_agent_task"},
}


async def test_postgresql_looks_up_each_offer_by_index(crowded: tuple[Gateway, Specialist]):
    """Accepting reads what is on record of an owner's task and UUID, and of nobody else's."""
    relay, _ = crowded
    await relay.record("t1")
    with noting(relay.relay.db) as noted:
        await relay.rate("t1")
    [accept] = noted.naming("offers AS", "inserted AS")
    async with relay.relay.db._writer.connect() as connection:
        plan = await explained(connection, "ANALYZE", accept, noted.statements[accept])
        await connection.rollback()
    for table, indexes in ACCEPT.items():
        read = [scan for scan in plan if scan.table == table]
        assert {scan.index for scan in read} == indexes
        assert sum(scan.rows for scan in read) <= 3


# SQLite.


def names(statement: str) -> dict[str, str]:
    """The large tables of a statement by the names that its plan gives them."""
    tables = "|".join(LARGE)
    found = re.findall(
        rf"\b(?:FROM|JOIN|UPDATE|INTO)\s+({tables})\b(?:\s+(?:AS\s+)?(?!SET|WHERE|JOIN|ON|LEFT|CROSS)(\w+))?", statement
    )
    return {name or table: table for table, name in found}


async def test_sqlite_reads_no_large_table_as_a_whole(tmp_path: Path, sqlite_database_url: str):
    """Every statement of the main path searches the tables that grow by an index."""
    async with small_world(tmp_path, sqlite_database_url) as (relay, specialists):
        db = relay.relay.db
        with noting(db) as noted:
            await the_main_path(relay, specialists["literature"])
            # An owner's repeat may have been quicker than the worker: one more, which nobody asks for.
            await relay.change("UPDATE deliveries SET state = 'pending', due_at = 0, saved_at = NULL WHERE id = 1")
            while await relay.rows("SELECT 1 FROM deliveries WHERE id = 1 AND state <> 'saved'"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert len(noted.statements) > 20
        plans: dict[str, list[str]] = {}
        async with db.read() as connection:
            for statement, parameters in noted.statements.items():
                rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans[statement] = [row.detail for row in rows]
    for statement, plan in plans.items():
        for detail in plan:
            scanned = re.match(rf"SCAN (\w+)(?! USING INDEX {IN_FLIGHT})", detail)
            assert scanned is None or scanned[1] not in names(statement), (statement, plan)
    due = next(plan for statement, plan in plans.items() if "ORDER BY d.due_at, d.id LIMIT" in statement)
    assert due[0].startswith("SEARCH d USING INDEX ix_deliveries_due (agent=? AND due_at<?)")
    assert not any("TEMP B-TREE" in detail for detail in due)
