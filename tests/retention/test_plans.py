"""How the databases go about retention: by index, however much is kept."""

import re
from pathlib import Path
from typing import Final

from sqlalchemy import text

from relay.retention.model import Policy
from relay.retention.owners import OwnerErasure
from relay.retention.sweeping import Sweep, tenants
from relay.storage.engine import Database
from tests.delivery.test_plans import BACKLOG, LARGE, Noted, explained, names, noting, numbered
from tests.support.gateway import small_world

ROWS: Final = 20_000


async def everything(db: Database, owner_key: str) -> Noted:
    """The statements of a sweep and of the erasure of one owner. (Counting what is due may read all of it, by hand.)"""
    with noting(db) as noted:
        await Sweep(db, Policy(30), by="retention").run()
        await tenants(db)
        erasure = await OwnerErasure.find(db, owner_key)
        assert erasure is not None
        await erasure.look()
        await erasure.run("cli:root", "request 7")
    return noted


async def test_postgresql_finds_what_is_due_by_index(tmp_path: Path, postgres_database_url: str):
    """Among twenty thousand that wait or are young, a few are old enough, and no table that grows is scanned."""
    async with small_world(tmp_path, postgres_database_url, agents=("chemistry", "backlog"), worker=False) as (
        relay,
        _,
    ):
        db = relay.relay.db
        async with db.statement() as connection:
            for table, statement in BACKLOG.items():
                filled = statement.replace("{rows}", str(ROWS)).replace("md5(task), 1", "md5(task), {now}")
                await connection.execute(db.sql(filled))
                if table == "submissions":
                    old = "convert_to('x', 'UTF8'), 'a', 1 FROM owners o WHERE owner_key IN ('ok_1', 'ok_2', 'ok_3')"
                    await connection.execute(
                        text(
                            "INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as,"
                            " registration_version, protocol, rating, payload, sha256, created_at) SELECT id, 'acme',"
                            f" 'w', 'old', 'chemistry', 'old', 'client', 1, 'roblox-v1', 'up', {old}"
                        )
                    )
                if table == "deliveries":
                    final = "(SELECT seq FROM submissions WHERE task = 'old')"
                    await connection.execute(text(f"UPDATE deliveries SET state = 'saved' WHERE submission IN {final}"))
                await connection.execute(text(f"ANALYZE {table}"))
        noted = await everything(db, "ok_2")
        erased = await relay.rows("SELECT id FROM submissions WHERE erased_at IS NOT NULL AND task = 'old'")
        assert len(erased) == 3
        assert len(noted.statements) > 15
        async with db.read() as connection:
            for statement, parameters in noted.statements.items():
                for plan in (
                    await explained(connection, "COSTS", statement, parameters),
                    await explained(connection, "GENERIC_PLAN", numbered(statement), None),
                ):
                    assert [scan for scan in plan if scan.whole and scan.table in LARGE] == [], statement


async def test_sqlite_finds_what_is_due_by_index(tmp_path: Path, sqlite_database_url: str):
    """Every statement searches the tables that grow by an index, and sorts nothing that could be long."""
    async with small_world(tmp_path, sqlite_database_url, worker=False) as (relay, _):
        await relay.record("t1")
        await relay.rate("t1")
        [owner] = await relay.rows("SELECT owner_key FROM owners WHERE kind = 'human'")
        db = relay.relay.db
        noted = await everything(db, owner["owner_key"])
        async with db.read() as connection:
            for statement, parameters in noted.statements.items():
                rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                for detail in [row.detail for row in rows]:
                    scanned = re.match(r"SCAN (\w+)", detail)
                    assert scanned is None or scanned[1] not in names(statement), (statement, detail)
                    assert "TEMP B-TREE FOR ORDER BY" not in detail or "created_at" not in statement, statement
