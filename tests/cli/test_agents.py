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
from tests.support.configuration import AGENT

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


WAITING = """
INSERT INTO owners (id, owner_key, kind, issuer, client, lookup_hmac, pepper_kid, created_at)
VALUES (1, 'ok_1', 'human', 'i', 'c', 'h', 'p', 1);
INSERT INTO submissions (seq, owner, tenant, client, id, agent, task, ran_as, registration_version, protocol,
    rating, payload, sha256, created_at)
SELECT value, 1, 't' || value, 'c', 'u' || value, 'literature', 'task' || value, 'client', 1, 'roblox-v1', 'up', 'x',
    'y', 1 FROM json_each('[1, 2, 3]');
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, agent, tenant, 1, 0, CASE seq WHEN 1 THEN 'saved' WHEN 2 THEN 'held' ELSE 'pending' END, 1, 1,
    0, 0, 0, CASE seq WHEN 1 THEN 1 ELSE 3000 + seq * 1000 END, 'unchecked', 1 FROM submissions;
INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, open_until)
VALUES ('literature', 1, 10, 9, 99999999999999);
"""


@pytest.fixture
def configured(config_file: Path) -> None:
    """The configuration names literature as `declare` seeds it."""
    entry = AGENT.replace("secrets/token", "/run/secrets/token")
    config_file.write_text(config_file.read_text() + entry)


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
        "state": "approved",
        "newestVersion": 1,
        "origin": "https://literature.example.org",
        "protocol": "roblox-v1",
        "heldFor": [],
        "standing": "approved",
        "source": "configuration",
        "breaker": {
            "state": "closed",
            "attempts": 0,
            "failures": 0,
            **dict.fromkeys(("openUntil", "pausedUntil", "windowStartedAt", "lastSuccessAt", "lastFailureAt")),
        },
        "backlog": {"oldest": None},
        "disagreement": None,
    }


def test_in_a_pipe_a_row_is_a_line(relay: Relay, declare: Declare):
    """However long its words are: what is not a terminal has no width."""
    declare(f"https://{'library.' * 12}example.org")
    assert relay("agents", "hold", "literature", "--tenant", "a tenant " * 12, "--why", "maintenance").exit_code == 0
    header, row = relay("agents", "list").stdout.splitlines()
    assert header.split()[:3] == ["agent", "state", "version"]
    assert ("a tenant " * 12).strip() in row
    assert f"{'library.' * 12}example.org" in row
    head, version = relay("agents", "show", "literature").stdout.splitlines()[-2:]
    assert (head.split()[0], version.split()[:3]) == ("version", ["1", "approved", "configuration"])


def test_the_backlog_and_the_breaker_are_listed(relay: Relay, declare: Declare, tmp_path: Path):
    """What waits for the agent, whosever it is, since when, and that nothing is sent at the moment."""
    declare("https://literature.example.org")
    with sqlite3.connect(tmp_path / "relay.db") as connection:
        connection.executescript(WAITING)
    connection.close()
    found = listed(relay)
    assert found["backlog"] == {"pending": 1, "held": 1, "oldest": "1970-01-01T00:00:05.000Z"}
    breaker = found["breaker"]
    assert isinstance(breaker, dict)
    assert (breaker["state"], breaker["failures"]) == ("open", 9)
    row = relay("agents", "list").stdout.splitlines()[1].split()
    assert row[7:10] == ["open", "2", "1970-01-01T00:00:05.000Z"]


FRAGMENT = """
[[agents]]
id = "geology"
name = "Geology"
origin = "https://geology.example.org"
protocol = "roblox-v1"
owner_contact = "rocks@example.org"
limits.in_flight = 3
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "https://login.example.org"
  token_file = "secrets/rocks"
"""


def test_an_agent_is_proposed_from_a_file(relay: Relay, declare: Declare, tmp_path: Path):
    """One entry as it would stand in the configuration, with paths relative to the file; then it is approved."""
    declare("https://literature.example.org")
    (tmp_path / "proposals").mkdir()
    fragment = tmp_path / "proposals" / "geology.toml"
    fragment.write_text(FRAGMENT)
    done = relay("agents", "propose", "geology", "--file", str(fragment), "--why", "a new one", "--by", "peter")
    assert done.stdout == "geology: nothing is approved; deliveries parked: 0, freed: 0\n"
    assert relay("agents", "approve", "geology", "1", "--why", "checked", "--by", "olga").exit_code == 0
    shown = json.loads(relay("agents", "show", "geology", "--json").stdout)
    [version] = shown["versions"]
    assert (version["source"], version["proposedBy"], version["approvedBy"]) == ("operator", "cli:peter", "cli:olga")
    assert (version["ownerContact"], version["limits"]) == ("rocks@example.org", {"inFlight": 3})
    assert version["credentials"][0]["token_file"] == str(tmp_path / "proposals" / "secrets" / "rocks")


@pytest.mark.usefixtures("configured")
def test_a_change_is_proposed_by_options(relay: Relay, declare: Declare):
    """What is not named stays as it is; what the configuration says otherwise is told from then on."""
    declare("https://literature.example.org")
    changes = ("--name", "Books", "--in-flight", "2", "--owner-contact", "books@example.org")
    assert relay("agents", "propose", "literature", *changes, "--why", "they asked").exit_code == 0
    assert listed(relay)["approvedVersion"] == 1
    assert listed(relay)["disagreement"] is None
    assert relay("agents", "approve", "literature", "2", "--why", "fine").exit_code == 0
    found = listed(relay)
    assert (found["approvedVersion"], found["source"]) == (2, "operator")
    differs = {"version": 2, "state": "approved", "differs": ["name", "limits", "ownerContact"]}
    assert found["disagreement"] == differs
    assert "another name, limits, owner contact" in relay("agents", "list").stdout
    shown = relay("agents", "show", "literature").stdout
    assert "the configuration disagrees: another name, limits, owner contact" in shown


def test_a_move_is_proposed_and_withdrawn(relay: Relay, declare: Declare):
    """Nothing is sent until somebody decides; turned down, what was in force is so again."""
    declare("https://literature.example.org")
    move = ("--origin", "https://library.example.org", "--why", "moved")
    done = relay("agents", "propose", "literature", *move)
    assert done.stdout == "literature: nothing is approved; deliveries parked: 0, freed: 0\n"
    done = relay("agents", "withdraw", "literature", "2", "--why", "not ours")
    assert done.stdout == "literature: version 1 is approved; deliveries parked: 0, freed: 0\n"
    assert relay("agents", "propose", "literature", "--no-protocol", "--why", "enough").exit_code == 0
    assert json.loads(relay("agents", "show", "literature", "--json").stdout)["versions"][2]["protocol"] is None


def test_a_version_is_held_for_everybody(relay: Relay, declare: Declare):
    """By its number instead of a tenant; and one version can be revoked alone."""
    declare("https://literature.example.org")
    done = relay("agents", "hold", "literature", "--version", "1", "--why", "it leaks")
    assert done.stdout == "literature: version 1 is held; deliveries parked: 0, freed: 0\n"
    assert listed(relay)["standing"] == "held"
    done = relay("agents", "resume", "literature", "--version", "1", "--why", "mended")
    assert done.stdout == "literature: version 1 is approved; deliveries parked: 0, freed: 0\n"
    relay("agents", "propose", "literature", "--name", "Books", "--why", "x")
    assert relay("agents", "revoke", "literature", "--version", "2", "--why", "no").exit_code == 0
    versions = json.loads(relay("agents", "show", "literature", "--json").stdout)["versions"]
    assert [version["state"] for version in versions] == ["approved", "revoked"]


def test_with_four_eyes_it_is_the_account_that_counts(
    relay: Relay, declare: Declare, config_file: Path, tmp_path: Path
):
    """Another name is no other person, so --by is refused; a proposal by somebody else is approved."""
    declare("https://literature.example.org")
    with config_file.open("a") as file:
        file.write("[registry]\nfour_eyes = true\n")
    propose = ("agents", "propose", "literature", "--name", "Books", "--why", "x")
    approve = ("agents", "approve", "literature", "2", "--why", "x")
    assert relay(*propose).exit_code == 0
    refused = relay(*approve)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "relay: version 2 of literature has to be approved by another than its proposer\n",
    )
    for command in (propose, approve):
        refused = relay(*command, "--by", "somebody else")
        assert refused.exit_code == 1
        assert "it is the account that counts: leave --by out" in refused.stderr
    with sqlite3.connect(tmp_path / "relay.db") as connection:
        connection.execute("UPDATE registrations SET proposed_by = 'cli:somebody-else' WHERE version = 2")
    connection.close()
    assert relay(*approve).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--origin", "https://Example.org"), 1, "[[agents]] no. 1, origin: not in canonical form"),
        (("--protocol", "pigeon"), 1, "is not a protocol of this relay"),
        ((), 2, "say what changes"),
        (("--name", "x", "--file", "FILE"), 2, "say what changes"),
        (("--protocol", "roblox-v1", "--no-protocol"), 2, "exclude each other"),
        (("--in-flight", "0"), 2, "--in-flight"),
        (("--file", "FILE"), 1, "is about geology, not literature"),
        (("--file", "TWICE"), 2, "must hold one [[agents]] entry, and holds 2"),
        (("--file", "WRONG"), 2, "WRONG:5: [[agents]] no. 1, origin"),
        (("--file", "ODD"), 2, "[[agents]] no. 1, colour"),
    ],
    ids=str,
)
def test_what_cannot_be_proposed_is_told(
    relay: Relay, declare: Declare, tmp_path: Path, arguments: tuple[str, ...], code: int, told: str
):
    """By the rules of the configuration, with the key, and the line of a file; nothing is stored."""
    declare("https://literature.example.org")
    files = {
        "FILE": FRAGMENT,
        "TWICE": FRAGMENT + FRAGMENT.replace("geology", "biology"),
        "WRONG": FRAGMENT.replace("https://", "ftp://"),
        "ODD": FRAGMENT.replace("owner_contact", "colour"),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    paths = [str(tmp_path / each) if each in files else each for each in arguments]
    result = relay("agents", "propose", "literature", *paths, "--why", "x")
    assert (result.exit_code, told in result.stderr) == (code, True), result.stderr
    assert listed(relay)["newestVersion"] == 1


@pytest.mark.parametrize("command", ["hold", "resume"])
@pytest.mark.parametrize("options", [(), ("--tenant", "acme", "--version", "1")], ids=["neither", "both"])
def test_a_hold_is_a_tenants_or_everybodys(relay: Relay, declare: Declare, command: str, options: tuple[str, ...]):
    """Which of the two has to be said."""
    declare("https://literature.example.org")
    result = relay("agents", command, "literature", *options, "--why", "x")
    assert result.exit_code == 2
    assert "say --tenant, for one tenant's hold, or --version" in result.stderr


def test_an_agent_that_nobody_knows_is_proposed_from_a_file_only(relay: Relay, declare: Declare):
    """Its credentials have no option."""
    declare("https://literature.example.org")
    result = relay("agents", "propose", "geology", "--origin", "https://geology.example.org", "--why", "x")
    assert (result.exit_code, "propose a new one with --file" in result.stderr) == (1, True)


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

    versions = json.loads(relay("agents", "show", "literature", "--json").stdout)["versions"]
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
