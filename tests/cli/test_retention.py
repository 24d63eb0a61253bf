"""``relay retention``: shown and carried out from the command line."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from relay.storage import schema
from relay.storage.engine import Database

Relay = Callable[..., Result]

POLICY = """
[retention]
days = 30
[retention.tenants.ever]
days = 0
[retention.tenants.absent]
days = 365
"""
SEEDS = """
INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
    VALUES (1, 'ok_1', 'human', 'i', 'c', 'h', 'p', 1);
INSERT INTO agents (id, name, revision, updated_at) VALUES ('literature', 'L', 1, 1), ('chemistry', 'C', 1, 1);
"""
PLACE = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, created_at)
VALUES (1, ?, 'c', ?, ?, ?, 'client', 1, 'roblox-v1', 'up', 'fine', 'x', 'y', 1)
"""
DELIVER = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, agent, tenant, 1, false, ?, 1, 1, 0, 0, 0, 1, 'unchecked', 1 FROM submissions WHERE id = ?
"""


@pytest.fixture
def database(config_file: Path) -> Path:
    """Old submissions: three final ones of acme and one that waits, and one of a tenant that is kept for ever."""
    config_file.write_text(config_file.read_text() + POLICY)
    file = config_file.parent / "relay.db"

    async def migrate() -> None:
        db = Database.open(f"sqlite:///{file}")
        await schema.migrate(db)
        await db.close()

    asyncio.run(migrate())
    with sqlite3.connect(file) as connection:
        connection.executescript(SEEDS)
        for n, (tenant, agent, state) in enumerate(
            (
                ("acme", "literature", "saved"),
                ("acme", "literature", "abandoned"),
                ("acme", "chemistry", "saved"),
                ("acme", "literature", "pending"),
                ("ever", "literature", "saved"),
            )
        ):
            connection.execute(PLACE, (tenant, f"u{n}", agent, f"t{n}"))
            connection.execute(DELIVER, (state, f"u{n}"))
    connection.close()
    return file


def rows(database: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(database)
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


ERASED = "SELECT count(*) FROM submissions WHERE erased_at IS NOT NULL"


def test_the_policies_are_shown(relay: Relay, database: Path):
    """Of the tenants that are configured, of those that have something, and of every other."""
    assert json.loads(relay("retention", "show", "--json").stdout) == [
        {"tenant": "absent", "days": 365, "oldest": None},
        {"tenant": "acme", "days": 30, "oldest": "1970-01-01T00:00:00.001Z"},
        {"tenant": "ever", "days": None, "oldest": "1970-01-01T00:00:00.001Z"},
        {"tenant": None, "days": 30, "oldest": None},
    ]
    told = relay("retention", "show").stdout
    assert "for ever" in told
    assert "every other" in told
    assert rows(database, ERASED) == [(0,)]


def test_a_sweep_by_hand(relay: Relay, database: Path):
    """Counted by tenant and agent, then carried out, with the account in the audit log; a second time finds nothing."""
    counts = {"erased": 3, "tenants": {"acme": {"chemistry": 1, "literature": 2}}}
    counted = relay("retention", "sweep", "--dry-run", "--json")
    assert json.loads(counted.stdout) == {"dryRun": True, **counts}
    assert "submissions that would be erased: 3\n" in relay("retention", "sweep", "--dry-run").stdout
    assert rows(database, ERASED) == [(0,)]
    assert rows(database, "SELECT * FROM audit_log") == []
    done = relay("retention", "sweep", "--by", "alice", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"dryRun": False, **counts})
    assert rows(database, ERASED) == [(3,)]
    audited = rows(database, "SELECT tenant, actor, action FROM audit_log ORDER BY seq")
    assert audited == [("acme", "cli:alice", "retention.sweep"), ("acme", "cli:alice", "retention.swept")]
    again = relay("retention", "sweep")
    assert (again.exit_code, again.stdout) == (0, "submissions erased: 0\n")


def test_a_table_tells_what_was_erased(relay: Relay, database: Path):
    """For people, by tenant and agent."""
    told = relay("retention", "sweep").stdout.splitlines()
    assert [line.split() for line in told[1:3]] == [["acme", "chemistry", "1"], ["acme", "literature", "2"]]
    assert told[-1] == "submissions erased: 3"
    assert rows(database, ERASED) == [(3,)]


def test_a_database_that_is_behind_is_refused(relay: Relay, config_file: Path):
    """The command says what to run first."""
    refused = relay("retention", "sweep")
    assert (refused.exit_code, "relay migrate" in refused.stderr) == (3, True)
    assert relay("retention", "show").exit_code == 3
    assert config_file.exists()
