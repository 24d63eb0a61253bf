"""``relay agents``: decisions from the command line, carried out and audited."""

import asyncio
import json
import os
import pwd
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from registry.model import AgentId, StaticBearer
from registry.registrations import Declaration
from relay.operators.agents import Agents
from relay.storage import schema
from relay.storage.engine import Database

Relay = Callable[..., Result]
Declare = Callable[..., None]

BEARER = StaticBearer(issuer="https://login.example.org", client_id="workbench", token_file="/run/secrets/token")


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """Seeds the registry as a start with this origin in the configuration would."""

    def seed(origin: str) -> None:
        agent = Declaration(
            agent=AgentId("literature"),
            name="Literature specialist",
            origin=origin,
            protocol="roblox-v1",
            credentials=(BEARER,),
        )

        async def work() -> None:
            db = Database.open(f"sqlite:///{tmp_path}/relay.db")
            await schema.migrate(db)
            await Agents(db).seed([agent])
            await db.close()

        asyncio.run(work())

    return seed


def listed(relay: Relay) -> dict[str, object]:
    [agent] = json.loads(relay("agents", "list", "--json").stdout)
    return dict(agent)


def audited(tmp_path: Path) -> list[tuple[str, str, str]]:
    with sqlite3.connect(tmp_path / "relay.db") as connection:
        rows = connection.execute("SELECT actor, action, why FROM audit_log ORDER BY seq").fetchall()
    connection.close()
    return [row for row in rows if row[0] != "configuration"]


def test_a_configured_agent_is_listed(relay: Relay, declare: Declare):
    """The table for people, JSON for scripts."""
    declare("https://literature.example.org")
    table = relay("agents", "list")
    assert table.exit_code == 0
    assert "literature" in table.stdout
    assert "roblox-v1" in table.stdout
    assert listed(relay) == {
        "agent": "literature",
        "name": "Literature specialist",
        "approvedVersion": 1,
        "newestVersion": 1,
        "origin": "https://literature.example.org",
        "protocol": "roblox-v1",
        "heldFor": [],
    }


def test_a_moved_agent_waits_until_it_is_approved(relay: Relay, declare: Declare, tmp_path: Path):
    """A new origin is only proposed; approving and vouching for it are two decisions, both audited by name."""
    declare("https://literature.example.org")
    declare("https://library.example.org")
    assert listed(relay)["approvedVersion"] is None

    done = relay("agents", "approve", "literature", "2", "--why", "moved", "--by", "alice", "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["approvedVersion"] == 2
    done = relay("agents", "same-specialist", "literature", "1", "--why", "the same team", "--by", "alice")
    assert done.stdout == "literature: version 2 is approved; deliveries parked: 0, freed: 0\n"

    versions = json.loads(relay("agents", "show", "literature", "--json").stdout)
    assert [(v["version"], v["state"], v["lineage"]) for v in versions] == [(1, "superseded", 2), (2, "approved", 2)]
    assert versions[1]["approvedBy"] == "cli:alice"
    assert versions[1]["approvedAt"].endswith("Z")
    assert versions[0]["credentials"][0]["mode"] == "static_bearer"
    assert audited(tmp_path) == [
        ("cli:alice", "agent.approve", "moved"),
        ("cli:alice", "agent.same_specialist", "the same team"),
    ]


def test_holds_are_one_tenants_own(relay: Relay, declare: Declare):
    """A hold names its tenant, is shown, and ends."""
    declare("https://literature.example.org")
    done = relay("agents", "hold", "literature", "--tenant", "acme", "--why", "maintenance")
    assert done.stdout == ("literature: version 1 is approved, held for acme; deliveries parked: 0, freed: 0\n")
    assert listed(relay)["heldFor"] == ["acme"]
    assert relay("agents", "resume", "literature", "--tenant", "acme", "--why", "done").exit_code == 0
    assert listed(relay)["heldFor"] == []


def test_revoking_leaves_nothing_approved(relay: Relay, declare: Declare, tmp_path: Path):
    """Without --by the account that ran the command stands in the audit log."""
    declare("https://literature.example.org")
    done = relay("agents", "revoke", "literature", "--why", "compromised")
    assert done.stdout == "literature: nothing is approved; deliveries parked: 0, freed: 0\n"
    account = pwd.getpwuid(os.getuid()).pw_name
    assert audited(tmp_path) == [(f"cli:{account}", "agent.revoke", "compromised")]
    assert "revoked" in relay("agents", "show", "literature").stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show", "absent"), "there is no agent absent"),
        (("revoke", "absent", "--why", "x"), "there is no agent absent"),
        (("approve", "literature", "7", "--why", "x"), "literature has no version 7"),
        (("approve", "literature", "1", "--why", "x"), "version 1 of literature is approved already"),
        (("resume", "literature", "--tenant", "acme", "--why", "x"), "literature is not held for acme"),
    ],
)
def test_a_refused_decision_is_told_and_not_audited(
    relay: Relay, declare: Declare, tmp_path: Path, arguments: tuple[str, ...], told: str
):
    """Exit code 1, the reason on stderr, and nothing done."""
    declare("https://literature.example.org")
    result = relay("agents", *arguments)
    assert result.exit_code == 1
    assert result.stderr == f"relay: {told}\n"
    assert audited(tmp_path) == []


def test_a_decision_needs_a_reason(relay: Relay, declare: Declare, tmp_path: Path):
    """The audit log is no list of empty reasons; a missing one is a mistake of the command line."""
    declare("https://literature.example.org")
    result = relay("agents", "revoke", "literature")
    assert result.exit_code == 2
    assert "--why" in result.stderr
    assert audited(tmp_path) == []


def test_a_database_behind_is_told(relay: Relay):
    """Before the first migration there is nothing to look at: exit code 3, and what to run."""
    result = relay("agents", "list")
    assert result.exit_code == 3
    assert "run `relay migrate` first" in result.stderr
