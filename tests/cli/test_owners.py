"""``relay owners``: a person is found without their subject in a process list, and erased."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from relay.cli import main
from relay.identity.model import OwnerTuple
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.storage import schema
from relay.storage.engine import Database
from tests.cli.test_keys import configure
from tests.cli.test_retention import DELIVER, PLACE

Relay = Callable[..., Result]

ISSUER = "https://login.example.org"
WHERE = ("--issuer", ISSUER, "--client", "workbench")


@pytest.fixture
def keys(config_file: Path, tmp_path: Path) -> dict[str, str]:
    """The owner keys of alice, who has rated, and of a machine client."""
    configure(config_file)
    found: dict[str, str] = {}

    async def start() -> None:
        db = Database.open(f"sqlite:///{tmp_path}/relay.db")
        await schema.migrate(db)
        owners = Owners(db, await OwnerKeys.load(db, tmp_path / "secrets/pepper-1", tmp_path / "secrets/sealing-1"))
        alice = OwnerTuple("human", ISSUER, "workbench", "alice")
        found["alice"] = (await owners.ensure(alice, seal_subject=True)).key
        machine = OwnerTuple("machine", ISSUER, "workbench", "workbench")
        found["machine"] = (await owners.ensure(machine, seal_subject=False)).key
        await db.close()

    asyncio.run(start())
    with sqlite3.connect(tmp_path / "relay.db") as connection:
        connection.execute("INSERT INTO agents (id, name, revision, updated_at) VALUES ('literature', 'L', 1, 1)")
        connection.execute(
            "INSERT INTO registrations (agent, version, name, state, source, origin, credentials, lineage, proposed_at,"
            " proposed_by, owner_contact) VALUES ('literature', 1, 'L', 'approved', 'configuration',"
            " 'https://literature.example.org', '[]', 1, 1, 'configuration', 'lab@example.org')"
        )
        for n, state in enumerate(("saved", "pending")):
            connection.execute(PLACE, ("acme", f"u{n}", "literature", f"t{n}"))
            connection.execute(DELIVER, (state, f"u{n}"))
        connection.execute(
            "INSERT INTO attempts (delivery, number, cause, registration_version, started_at, outcome, ambiguous)"
            " VALUES (1, 1, 'accept', 1, 1, 'saved', false)"
        )
    connection.close()
    return found


def rows(config_file: Path, statement: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(config_file.parent / "relay.db")
    found = connection.execute(statement).fetchall()
    connection.close()
    return found


def test_a_person_is_found_by_a_file_or_standard_input(
    relay: Relay, keys: dict[str, str], tmp_path: Path, config_file: Path
):
    """The subject is no argument, and is not printed."""
    file = tmp_path / "subject"
    file.write_text("alice\n")
    found = relay("owners", "find", *WHERE, "--subject-file", str(file))
    assert (found.exit_code, found.stdout) == (0, keys["alice"] + "\n")
    arguments = ["--config", str(config_file), "owners", "find", *WHERE, "--subject-file", "-", "--json"]
    piped = CliRunner().invoke(main, arguments, input="alice\r\n")
    assert json.loads(piped.stdout) == {"ownerKey": keys["alice"]}
    assert relay("owners", "find", *WHERE).stdout == keys["machine"] + "\n"


def test_a_stranger_is_not_found(relay: Relay, keys: dict[str, str], tmp_path: Path, config_file: Path):
    """Nothing is stored by asking, and nothing of the subject is said."""
    file = tmp_path / "subject"
    file.write_text("mallory")
    found = relay("owners", "find", *WHERE, "--subject-file", str(file))
    assert (found.exit_code, "no such owner" in found.stderr) == (1, True)
    assert "mallory" not in found.output
    assert rows(config_file, "SELECT count(*) FROM owners") == [(len(keys),)]


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"alice\nbob\n", b"\xff\xfe", b"a" * 5000], ids=["empty", "blank", "two", "binary", "long"]
)
def test_a_file_that_is_no_subject_is_refused(relay: Relay, keys: dict[str, str], tmp_path: Path, content: bytes):
    """Whoever names another file is told, instead of being told that there is nobody."""
    file = tmp_path / "subject"
    file.write_bytes(content)
    refused = relay("owners", "find", *WHERE, "--subject-file", str(file))
    assert refused.exit_code == 2
    assert str(file) in refused.stderr
    absent = relay("owners", "find", *WHERE, "--subject-file", str(tmp_path / "absent"))
    assert (absent.exit_code, "cannot be read" in absent.stderr) == (2, True)
    assert keys


def test_an_owner_is_erased_from_the_command_line(relay: Relay, keys: dict[str, str], config_file: Path):
    """Counted, then carried out; the copies at specialists are listed, and no subject is said or written."""
    numbers = {
        "erased": 2,
        "abandoned": 1,
        "underWay": 0,
        "evidence": 0,
        "subject": True,
        "copies": [
            {
                "agent": "literature",
                "origin": "https://literature.example.org",
                "ownerContact": "lab@example.org",
                "saved": 1,
                "possiblyReceived": 0,
            }
        ],
    }
    key = keys["alice"]
    counted = relay("owners", "erase", key, "--dry-run", "--json")
    assert json.loads(counted.stdout) == {"ownerKey": key, "dryRun": True, **numbers}
    assert "submissions would be erased: 2\n" in relay("owners", "erase", key, "--dry-run").stdout
    assert rows(config_file, "SELECT count(*) FROM submissions WHERE erased_at IS NOT NULL") == [(0,)]
    assert rows(config_file, "SELECT * FROM audit_log") == []
    done = relay("owners", "erase", key, "--why", "request 7", "--by", "root", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"ownerKey": key, "dryRun": False, **numbers})
    assert rows(config_file, "SELECT rating, comment FROM submissions") == [(None, None)] * 2
    assert rows(config_file, "SELECT actor, action, target, why FROM audit_log ORDER BY seq") == [
        ("cli:root", "owner.erase", key, "request 7"),
        ("cli:root", "owner.erased", key, "request 7"),
    ]
    told = relay("owners", "erase", key, "--why", "request 7").stdout
    assert "submissions erased: 0\n" in told
    assert "sealed subject deleted: none was kept\n" in told
    assert "lab@example.org" in told
    machine = relay("owners", "erase", keys["machine"], "--why", "request 8").stdout
    assert machine.endswith("no specialist keeps a copy\n")


def test_an_attempt_under_way_is_told(relay: Relay, keys: dict[str, str], config_file: Path):
    """Whoever waits knows why: once, on stderr."""
    with sqlite3.connect(config_file.parent / "relay.db") as connection:
        connection.execute(
            "UPDATE deliveries SET state = 'sending', attempt_count = 1, claim_token = 'x', lease_until ="
            " CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 2000 WHERE state = 'pending'"
        )
    connection.close()
    done = relay("owners", "erase", keys["alice"], "--why", "request 7")
    assert done.exit_code == 0
    assert done.stderr == "relay: waiting for attempts that are under way: 1\n"
    assert "of them given up undelivered: 1 (under way: 1)\n" in done.stdout


def test_an_erasure_wants_a_reason_and_an_owner(relay: Relay, keys: dict[str, str]):
    """For the audit log; and a key that nobody has is no success."""
    refused = relay("owners", "erase", keys["alice"])
    assert (refused.exit_code, "--why" in refused.stderr) == (2, True)
    absent = relay("owners", "erase", "ok_nobody", "--why", "request 7")
    assert (absent.exit_code, absent.stderr) == (1, "relay: there is no owner ok_nobody\n")
