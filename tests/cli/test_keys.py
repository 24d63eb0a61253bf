"""``relay keys``: made, shown and rotated from the command line, and never printed."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from relay.config import load
from relay.identity.model import OwnerTuple
from relay.identity.owner_keys import OwnerKeys
from relay.identity.owners import Owners
from relay.storage import schema
from relay.storage.engine import Database

Relay = Callable[..., Result]


@pytest.fixture
def started(config_file: Path, tmp_path: Path) -> Iterator[Path]:
    """The directory of the keys of a relay that runs, with an owner who is sealed and one who is not."""
    configure(config_file)

    async def start() -> None:
        db = Database.open(f"sqlite:///{tmp_path}/relay.db")
        await schema.migrate(db)
        owners = Owners(db, await OwnerKeys.load(db, tmp_path / "secrets/pepper-1", tmp_path / "secrets/sealing-1"))
        for name, sealed in (("alice", True), ("bob", False)):
            owner = OwnerTuple("human", "https://login.example.org", "workbench", name)
            await owners.ensure(owner, seal_subject=sealed)
        await db.close()

    asyncio.run(start())
    return tmp_path / "secrets"


def configure(config_file: Path, pepper: int = 1, sealing: int = 1, previous: str = "") -> None:
    head, _, rest = config_file.read_text().partition("[owners]")
    identity = rest[rest.index("[[identity") :]
    owners = f'pepper_file = "secrets/pepper-{pepper}"\nsealing_key_file = "secrets/sealing-{sealing}"\n{previous}\n'
    config_file.write_text(f"{head}[owners]\n{owners}{identity}")


FORMER = 'previous_pepper_files = ["secrets/pepper-1"]\nprevious_sealing_key_files = ["secrets/sealing-1"]'


def shown(relay: Relay) -> dict[tuple[str, str], dict[str, Any]]:
    keys = json.loads(relay("keys", "show", "--json").stdout)
    return {(each["key"], Path(each["file"] or "none").name): each for each in keys}


def audited(config_file: Path) -> list[tuple[str, str, str]]:
    with sqlite3.connect(config_file.parent / "relay.db") as connection:
        rows = connection.execute("SELECT actor, action, why FROM audit_log ORDER BY seq").fetchall()
    connection.close()
    return rows


@pytest.mark.parametrize("kind", ["pepper", "sealing-key"])
def test_a_new_key_is_private_and_never_overwrites(relay: Relay, tmp_path: Path, kind: str):
    """The file is for its user only; its id is printed, the key is not; a second time is refused."""
    file = tmp_path / "new"
    made = relay("keys", "new", kind, str(file))
    assert made.exit_code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    content = file.read_text()
    assert content.strip() not in made.output
    again = relay("keys", "new", kind, str(file))
    assert again.exit_code == 1
    assert again.stderr == f"relay: {file} is there already: a key is never overwritten\n"
    assert file.read_text() == content
    absent = relay("keys", "new", kind, str(tmp_path / "absent" / "new"))
    assert (absent.exit_code, "No such file or directory" in absent.stderr) == (1, True)


def test_a_rotation_from_the_command_line(relay: Relay, started: Path, config_file: Path):
    """Made, configured, counted, carried out, shown; the former pepper stays needed by whoever has not come."""
    kid = relay("keys", "new", "pepper", str(started / "pepper-2")).stdout.strip()
    relay("keys", "new", "sealing-key", str(started / "sealing-2"))
    configure(config_file, 2, 2, FORMER)
    before = shown(relay)
    assert before["pepper", "pepper-2"] == {
        "key": "pepper",
        "kid": kid,
        "inForce": False,
        "owners": 0,
        "needed": False,
        "since": None,
        "file": str(started / "pepper-2"),
    }
    assert [before["pepper", "pepper-1"][name] for name in ("inForce", "owners")] == [True, 2]

    counted = relay("keys", "rotate", "--dry-run", "--json")
    counts = {"resealed": 1, "rekeyed": 1, "absent": 1, "unreadable": 0}
    assert {name: json.loads(counted.stdout)[name] for name in counts} == counts
    assert "would be sealed anew: 1\n" in relay("keys", "rotate", "--dry-run").stdout
    assert shown(relay) == before
    assert audited(config_file) == []

    done = relay("keys", "rotate", "--by", "alice", "--why", "yearly")
    assert done.exit_code == 0
    former = {name: before[name]["kid"] for name in before}
    assert done.stdout == (
        "subjects sealed anew: 1\nowners moved to the pepper: 1\nowners left until they next come: 1\n"
        f"pepper {former['pepper', 'pepper-1']} ({started}/pepper-1): still needed, owners: 1\n"
        f"sealing key {former['sealing_key', 'sealing-1']} ({started}/sealing-1): not needed any more\n"
    )
    after = shown(relay)
    assert [after["pepper", name]["owners"] for name in ("pepper-1", "pepper-2")] == [1, 1]
    assert [after["pepper", name]["inForce"] for name in ("pepper-1", "pepper-2")] == [False, True]
    assert audited(config_file) == [("cli:alice", "keys.rotate", "yearly"), ("cli:alice", "keys.rotated", "yearly")]
    assert kid in relay("keys", "show").stdout


def test_keys_are_shown_while_a_file_is_missing(relay: Relay, started: Path):
    """It is what an operator asks when the relay refuses to start; no key is in what it says."""
    secret = (started / "sealing-1").read_text().strip()
    (started / "pepper-1").unlink()
    result = relay("keys", "show", "--json")
    assert result.exit_code == 0
    assert "pepper_file" in result.stderr
    [pepper, sealing] = json.loads(result.stdout)
    assert (pepper["file"], pepper["needed"], pepper["owners"]) == (None, True, 2)
    assert sealing["file"] == str(started / "sealing-1")
    assert secret not in result.output
    assert "MISSING" in relay("keys", "show").stdout
    refused = relay("keys", "rotate")
    assert (refused.exit_code, "is missing" in refused.stderr) == (3, True)


def test_damaged_subjects_fail_the_command(relay: Relay, started: Path, config_file: Path):
    """Everything else is moved, and a script notices."""
    with sqlite3.connect(config_file.parent / "relay.db") as connection:
        connection.execute("UPDATE owners SET sealed_subject = zeroblob(40) WHERE sealed_subject IS NOT NULL")
    connection.close()
    relay("keys", "new", "sealing-key", str(started / "sealing-2"))
    configure(config_file, 1, 2, 'previous_sealing_key_files = ["secrets/sealing-1"]')
    result = relay("keys", "rotate")
    assert result.exit_code == 1
    assert "1 sealed subjects cannot be opened" in result.stderr
    assert load(config_file, {}).owners.sealing_key_file.name == "sealing-2"
