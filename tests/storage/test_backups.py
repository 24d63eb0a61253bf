"""Backup and restore as the runbook has them: the copy goes on where the original stood, also in another cluster."""

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, make_url

from relay.config import load
from tests.support import databases
from tests.support.gateway import Gateway, gateway, write_config
from tests.support.issuer import TestIssuer
from tests.support.processes import until
from tests.support.specialist import Specialist

BURN = "DO $$ BEGIN FOR i IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$"
"""Numbers of transactions that another cluster takes long to reach."""

FROM_ELSEWHERE = "SELECT count(*) AS total FROM events WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())"


class Place:
    """Where the relay's files are, whom it trusts and whom it serves, whichever database it opens."""

    def __init__(self, directory: Path, issuer: TestIssuer, literature: Specialist) -> None:
        self.directory = directory
        self.issuer = issuer
        self.literature = literature

    @asynccontextmanager
    async def relay(self, database_url: str) -> AsyncIterator[Gateway]:
        agents = {"literature": self.literature.origin}
        settings: dict[str, Any] = {"schedule": '["0s", "200ms", "200ms", "1s", "1s", "1s", "1s"]'}
        path = write_config(self.directory, database_url, self.issuer, agents, **settings)
        async with gateway(load(path, {}), self.issuer) as running:
            yield running


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with TestIssuer() as issuer, Specialist() as literature:
        yield Place(tmp_path, issuer, literature)


async def rate_two(relay: Gateway, literature: Specialist) -> tuple[str, str]:
    """One rating that is saved, and one that waits for its specialist."""
    for task in ("t1", "t2"):
        await relay.record(task)
    saved = (await relay.rate("t1")).json["id"]
    await literature.stop()
    waiting = (await relay.rate("t2", wait="respond-async")).json["id"]
    await relay.until(waiting, "pending")
    return saved, waiting


async def goes_on(relay: Gateway, literature: Specialist, saved: str, waiting: str) -> None:
    """What waited is delivered under its UUID, and what was saved is neither lost nor sent again."""
    await literature.start()
    await relay.until(waiting, "saved")
    again = await relay.rate("t1", id=saved)
    assert (again.status, again.json["id"]) == (201, saved)
    assert {post.json["id"] for post in literature.posts} == {saved, waiting}
    assert [post.json["id"] for post in literature.posts].count(saved) == 1


async def test_a_sqlite_copy_goes_on(place: Place, sqlite_database_url: str, tmp_path: Path):
    """The copy is made by SQLite's own backup while the relay runs, which ``cp`` must not do."""
    copy = tmp_path / "copy.db"
    async with place.relay(sqlite_database_url) as relay:
        saved, waiting = await rate_two(relay, place.literature)
        source = sqlite3.connect(make_url(sqlite_database_url).database or "")
        with sqlite3.connect(copy) as target:
            source.backup(target)  # as ``sqlite3 relay.db ".backup copy.db"`` does
        target.close()
        source.close()
    async with place.relay(f"sqlite:///{copy}") as relay:
        await goes_on(relay, place.literature, saved, waiting)


@pytest.fixture
def clusters() -> Iterator[tuple[str, str]]:
    """Two clusters, each of which numbers its transactions from the beginning."""
    with databases.embedded_postgres() as one, databases.embedded_postgres() as other:
        yield _new_database(one), _new_database(other)


def _new_database(server: str) -> str:
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE relay")
    url = make_url(server)
    return str(URL.create(url.drivername, url.username, None, url.host, url.port, "relay", url.query))


async def test_a_dump_goes_on_in_another_cluster(place: Place, clusters: tuple[str, str], tmp_path: Path):
    """A worker clears away the events that carry the other cluster's numbers; nothing has to be done by hand."""
    original, restored = clusters
    await asyncio.to_thread(databases.migrate, original)
    programs, dump = databases.postgres_programs(original), tmp_path / "relay.dump"
    with psycopg.connect(original, autocommit=True) as connection:
        connection.execute(BURN)
    async with place.relay(original) as relay:
        saved, waiting = await rate_two(relay, place.literature)
        await asyncio.to_thread(_run, programs / "pg_dump", "--format=custom", f"--file={dump}", original)
    await asyncio.to_thread(_run, programs / "pg_restore", "--no-owner", f"--dbname={restored}", dump)
    with psycopg.connect(restored) as connection:
        assert connection.execute(FROM_ELSEWHERE).fetchone() != (0,)
    async with place.relay(restored) as relay:

        async def cleared() -> bool:
            return (await relay.rows(FROM_ELSEWHERE))[0]["total"] == 0

        await until(cleared, "the end of events from elsewhere")
        await goes_on(relay, place.literature, saved, waiting)
        assert await relay.rows("SELECT 1 FROM events WHERE state = 'saved'")


def _run(*command: str | Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
