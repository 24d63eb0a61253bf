"""The database itself keeps the receiver's rows, whoever writes to it and however."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import psycopg
import pytest
from sqlalchemy import make_url, text

from registry.protocols.contract import Rated
from relay.receiver import Ratings
from relay.storage.engine import Database

Execute: TypeAlias = Callable[[str], list[tuple[Any, ...]]]

ID = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a001"
RATED = Rated(ID, "run-1", "up", "fine")
ALL = "SELECT seq, owner, id, task, rating, comment, resolution FROM receiver_ratings"


@pytest.fixture
async def prepared(database: Database) -> Database:
    """The database with one row in it."""
    ratings = Ratings(database)
    await ratings.prepare()
    await ratings.add("ok_alice", RATED)
    return database


@pytest.fixture
def raw(prepared: Database, database_url: str) -> Iterator[Execute]:
    """Statements over a connection of the driver's own, in autocommit: none of our code or settings is in between."""
    url = make_url(database_url)
    connection: Any
    if prepared.dialect == "sqlite":
        connection = sqlite3.connect(str(url.database), isolation_level=None)
    else:
        connection = psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)

    def execute(statement: str) -> list[tuple[Any, ...]]:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []

    yield execute
    connection.close()


REFUSED = [
    "UPDATE receiver_ratings SET seq = 7",
    "UPDATE receiver_ratings SET owner = 'ok_bob'",
    "UPDATE receiver_ratings SET id = 'other'",
    "UPDATE receiver_ratings SET task = 'run-2'",
    "UPDATE receiver_ratings SET rating = 'down'",
    "UPDATE receiver_ratings SET comment = NULL",
    "UPDATE receiver_ratings SET created_at = 0",
    "UPDATE receiver_ratings SET resolution = 'fixed', rating = 'down'",
    "DELETE FROM receiver_ratings",
    "DELETE FROM receiver_ratings WHERE seq = 1",
]


def test_a_row_is_immutable(raw: Execute):
    """No column but the resolution can be changed, and no row deleted."""
    before = raw(ALL)
    for statement in REFUSED:
        with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match=r"immutable|can only be updated to DEFAULT"):
            raw(statement)
        assert raw(ALL) == before, statement


VALUES = f"(owner, id, task, rating, comment, created_at) VALUES ('ok_alice', '{ID}', 'run-1', 'down', 'x', 0)"
SAME_NUMBER = "(seq, owner, id, task, rating, created_at) VALUES (1, 'ok_bob', 'other', 'run-2', 'down', 0)"


def test_a_row_is_not_replaced(raw: Execute, prepared: Database):
    """Neither the ways of SQLite to replace a row nor an upsert can change it."""
    before = raw(ALL)
    if prepared.dialect == "sqlite":
        raw(f"INSERT OR REPLACE INTO receiver_ratings {VALUES}")
        raw(f"REPLACE INTO receiver_ratings {VALUES}")
        raw(f"REPLACE INTO receiver_ratings {SAME_NUMBER}")
        raw(f"INSERT INTO receiver_ratings {VALUES} ON CONFLICT DO UPDATE SET rating = 'down'")
    else:
        with pytest.raises(psycopg.errors.RestrictViolation):
            raw(f"INSERT INTO receiver_ratings {VALUES} ON CONFLICT (owner, id) DO UPDATE SET rating = 'down'")
        with pytest.raises(psycopg.errors.RestrictViolation):
            raw("TRUNCATE receiver_ratings")
        with pytest.raises(psycopg.errors.UniqueViolation):
            raw(f"INSERT INTO receiver_ratings {VALUES}")
    assert raw(ALL) == before


def test_the_resolution_may_change(raw: Execute):
    """The one exception: the resolution is written, overwritten and taken away."""
    [before] = raw(ALL)
    for value, stored in (("'known'", "known"), ("'fixed'", "fixed"), ("NULL", None)):
        raw(f"UPDATE receiver_ratings SET resolution = {value}")
        assert raw(ALL) == [(*before[:-1], stored)]


def test_a_rating_is_up_or_down(raw: Execute):
    """The database takes no other word."""
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.CheckViolation)):
        raw("INSERT INTO receiver_ratings (owner, id, task, rating, created_at) VALUES ('o', 'i', 't', 'UP', 0)")


async def test_preparing_again_changes_nothing(prepared: Database):
    """A start on a prepared database leaves rows and triggers as they are."""
    ratings = Ratings(prepared)
    before = await ratings.newest("ok_alice")
    await ratings.prepare()
    assert await ratings.newest("ok_alice") == before
    assert [row.rated for row in before] == [RATED]


async def test_processes_may_start_together(database: Database, database_url: str):
    """Five that find no table at the same moment make one."""
    others = [Database.open(database_url) for _ in range(5)]
    await asyncio.gather(*(Ratings(other).prepare() for other in others))
    async with database.read() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM receiver_ratings"))).scalar_one() == 0
    for other in others:
        await other.close()


async def test_a_preparation_that_fails_leaves_nothing(database: Database):
    """Table and triggers come together or not at all: a table without its triggers would look prepared."""
    async with database.write() as connection:
        obstacle = "CREATE TABLE receiver_ratings_newest (x INTEGER)"  # its name is the index's
        await connection.execute(text(obstacle))
    with pytest.raises(Exception, match="receiver_ratings_newest"):
        await Ratings(database).prepare()
    async with database.write() as connection:
        await connection.execute(text("DROP TABLE receiver_ratings_newest"))
    await Ratings(database).prepare()
    assert await Ratings(database).add("ok_alice", RATED) is not None
