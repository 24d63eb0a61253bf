"""What the migrations make is what the tables declare, and the database itself keeps ratings as they are."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, make_url, text
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.schema import SchemaItem

from registry.tables import metadata
from relay.errors import StartupError
from relay.storage import schema
from relay.storage.engine import Database
from relay.storage.tables import TransactionId

ischema_names["xid8"] = TransactionId  # SQLAlchemy does not know the type when it reads a schema


async def test_the_migrated_schema_is_the_declared_one(database: Database):
    """Alembic finds nothing to change between a migrated database and the declared tables; that some indexes are
    declared for one engine alone it does not see by itself.
    """

    def belongs(item: SchemaItem, _name: str | None, kind: str, *_: object) -> bool:
        brin = kind == "index" and item.dialect_options["postgresql"].get("using") == "brin"
        return database.dialect == "postgresql" or not brin

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"include_object": belongs})
        return compare_metadata(context, metadata)

    async with database.read() as connection:
        assert await connection.run_sync(differences) == []


async def test_migrating_twice_changes_nothing(database: Database):
    """A second run finds the newest revision in place."""
    assert (await schema.migrate(database)).is_current


@pytest.mark.parametrize("start", ["0001"])
async def test_rows_of_every_earlier_schema_come_along(empty_database_url: str, start: str):
    """From each earlier schema, with data in it, the newest is reached; the data stays, and so do the triggers."""
    db = Database.open(empty_database_url)
    await schema.migrate(db, upto=start)
    before = RawConnection(empty_database_url)
    assert (await schema.migrate(db)).is_current
    assert before.rows("SELECT rating, comment FROM submissions") == [("up", "fine")]
    assert before.rows("SELECT state, evidence, checks, check_due_at FROM deliveries") == [
        ("pending", "unchecked", 0, None)
    ]
    with pytest.raises(before.error):
        before.raw.execute("UPDATE submissions SET rating = 'down'")
    before.raw.close()
    await db.close()


async def test_an_empty_database_is_refused(tmp_path: Path):
    """A program that must not migrate by itself says which command to run."""
    db = Database.open(f"sqlite:///{tmp_path / 'empty.db'}")
    with pytest.raises(StartupError, match="relay migrate"):
        await schema.require_current(db)
    await db.close()


async def test_a_database_of_a_newer_version_is_refused(database: Database):
    """An older program does not touch a schema that it does not know."""
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StartupError, match="newer relay"):
        await schema.require_current(database)


SUBMISSION = """INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol,
    rating, comment, payload, sha256, created_at) VALUES (1, 't', 'c', 'u1', 'a', 't1', 'client', 1, 'roblox-v1',
    'up', 'fine', 'x', 'y', 1)"""
SEEDS = [
    """INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
       VALUES (1, 'ok_1', 'human', 'i', 'c', 'h', 'p', 1)""",
    "INSERT INTO agents (id, name, revision, updated_at) VALUES ('a', 'A', 1, 1)",
    SUBMISSION,
    """INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at,
       not_before, schedule_position, attempt_count, window_started_at, evidence, version)
       VALUES ('feedback', 1, 'a', 't', 1, false, 'pending', 1, 1, 0, 0, 0, 1, 'unchecked', 1)""",
    "INSERT INTO audit_log (at, actor, action, target) VALUES (1, 'x', 'approve', 'a')",
]
ERASE = "UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL, erased_at = 2"
FORBIDDEN = [
    "UPDATE submissions SET rating = 'down'",
    "UPDATE submissions SET comment = NULL",
    "UPDATE submissions SET erased_at = 2",
    "UPDATE submissions SET created_at = 5",
    f"{ERASE}, task = 'other'",
    ERASE,
    "DELETE FROM submissions",
    "UPDATE audit_log SET actor = 'y'",
    "DELETE FROM audit_log",
]


class RawConnection:
    """A connection of the driver itself, past everything that the relay puts in front."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            self.raw: sqlite3.Connection | psycopg.Connection = sqlite3.connect(parsed.database, isolation_level=None)
            self.error: type[Exception] = sqlite3.IntegrityError
        else:
            self.raw = psycopg.connect(url, autocommit=True)
            self.error = psycopg.errors.RestrictViolation
        for seed in SEEDS:
            self.raw.execute(seed)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        return list(self.raw.execute(statement).fetchall())


@pytest.fixture
def raw(database_url: str):
    connection = RawConnection(database_url)
    yield connection
    connection.raw.close()


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_database_refuses_to_change_a_rating(raw: RawConnection, statement: str):
    """UPDATE and DELETE are refused by the database itself, an erasure of a waiting submission too."""
    with pytest.raises(raw.error):
        raw.raw.execute(statement)
    assert raw.rows("SELECT rating, comment, erased_at FROM submissions") == [("up", "fine", None)]


def test_a_final_submission_can_be_erased_once(raw: RawConnection):
    """The one exception: rating, comment and bytes go, the keys stay, and it happens once."""
    raw.raw.execute("UPDATE deliveries SET state = 'saved'")
    raw.raw.execute(ERASE)
    assert raw.rows("SELECT owner, id, task, rating, comment, erased_at FROM submissions") == [
        (1, "u1", "t1", None, None, 2)
    ]
    with pytest.raises(raw.error):
        raw.raw.execute("UPDATE submissions SET erased_at = 3")


def test_truncate_is_refused(postgres_database_url: str):
    """PostgreSQL's TRUNCATE does not walk past the triggers."""
    raw = RawConnection(postgres_database_url)
    for table in ("submissions", "audit_log"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            raw.raw.execute(f"TRUNCATE {table} CASCADE")
    raw.raw.close()


def test_replace_does_not_walk_past_the_triggers(sqlite_database_url: str):
    """SQLite's INSERT OR REPLACE leaves the stored row as it was."""
    raw = RawConnection(sqlite_database_url)
    raw.raw.execute(SUBMISSION.replace("INSERT", "INSERT OR REPLACE").replace("'up'", "'down'"))
    raw.raw.execute("INSERT OR REPLACE INTO audit_log (seq, at, actor, action, target) VALUES (1, 9, 'y', 'z', 'a')")
    assert raw.rows("SELECT rating FROM submissions") == [("up",)]
    assert raw.rows("SELECT actor FROM audit_log") == [("x",)]
    raw.raw.close()
