"""Agents at an operator's terminal: looked at, proposed, approved, held and revoked over the API."""

import json
from pathlib import Path

from tests.cli.operators.conftest import Station, lines
from tests.support.gateway import SECRET


async def test_what_waits_is_seen_held_and_let_go(station: Station):
    """The tenant's hold parks what waits, is shown with its reason, and ends."""
    await station.rated("t1", 503)
    held = await station.run("agents", "hold", "literature", "--why", "they are moving")
    assert held.exit_code == 0
    assert "held for your tenant by ok_" in held.stdout
    assert "deliveries parked: 1, freed: 0" in held.stdout
    [agent] = [one for one in lines(await station.run("agents", "list", "--json")) if one["agent"] == "literature"]
    assert (agent["hold"]["why"], agent["backlog"]["held"]) == ("they are moving", 1)
    assert "they are moving" in (await station.run("agents", "list")).stdout
    resumed = await station.run("agents", "resume", "literature", "--why", "they have moved", "--json")
    assert json.loads(resumed.stdout)["freed"] == 1
    again = await station.run("agents", "resume", "literature", "--why", "they have moved")
    assert (again.exit_code, "Nothing was changed" in again.stderr) == (5, True)


async def test_a_version_is_proposed_approved_held_and_revoked(station: Station):
    """Each decision with its reason, as `agents show` tells afterwards; no file and no secret is shown."""
    proposed = await station.run("agents", "propose", "literature", "--in-flight", "3", "--why", "they asked")
    assert "version 1 is in force, newest 2" in proposed.stdout
    approved = await station.run("agents", "approve", "literature", "2", "--why", "fine")
    assert "version 2 is in force" in approved.stdout
    for command in ("hold", "resume"):
        done = await station.run("agents", command, "literature", "--version", "2", "--why", f"to {command}", "--json")
        assert json.loads(done.stdout)["agent"]["state"] == {"hold": "held", "resume": "approved"}[command]
    assert (await station.run("agents", "withdraw", "literature", "2", "--why", "no")).exit_code == 5
    assert (await station.run("agents", "same-specialist", "literature", "1", "--why", "no")).exit_code in {0, 5}
    revoked = await station.run("agents", "revoke", "literature", "2", "--why", "gone")
    assert "nothing is in force" in revoked.stdout
    shown = await station.run("agents", "show", "literature")
    for why in ("they asked", "fine", "to hold", "gone"):
        assert why in shown.stdout
    assert SECRET not in shown.stdout
    assert "bearer" not in shown.stdout.replace("static_bearer", "")


async def test_a_proposal_comes_from_a_file_like_the_configurations(lite: Station, tmp_path: Path):
    """Its keys are those of [[agents]]; what the relay does not take is exit code 2 and names the member."""
    file = tmp_path / "geology.toml"
    file.write_text(
        '[[agents]]\nid = "geology"\nname = "Geology"\norigin = "http://localhost:9"\nowner_contact = "g@x"\n'
    )
    done = await lite.run("agents", "propose", "geology", "--file", str(file), "--why", "new", "--json")
    [version] = json.loads(done.stdout)["agent"]["versions"]
    assert (version["name"], version["ownerContact"], version["state"]) == ("Geology", "g@x", "proposed")
    other = await lite.run("agents", "propose", "physics", "--file", str(file), "--why", "new")
    assert (other.exit_code, "about another agent" in other.stderr) == (2, True)
    refused = await lite.run("agents", "propose", "literature", "--origin", "https://10.0.0.1", "--why", "moved")
    assert (refused.exit_code, "/origin" in refused.stderr) == (2, True)
    written = await lite.run("agents", "propose", "physics", "--origin", "http://localhost:9", "--why", "new")
    assert (written.exit_code, "/name" in written.stderr) == (2, True)
    silent = await lite.run("agents", "propose", "literature", "--no-protocol", "--why", "they opted out", "--json")
    assert json.loads(silent.stdout)["agent"]["versions"][-1]["protocol"] is None
    both = await lite.run("agents", "propose", "literature", "--no-protocol", "--protocol", "roblox-v1", "--why", "x")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    contents = {
        '[[agents]]\nname = "x"': "about another agent",
        '[[agents]]\nid = "geology"': "says nothing",
        "x": "Expected",
        "[server]\nport = 1": "one [[agents]] entry",
    }
    for content, said in contents.items():
        file.write_text(content)
        unusable = await lite.run("agents", "propose", "geology", "--file", str(file), "--why", "x")
        assert (unusable.exit_code, unusable.stdout, said in unusable.stderr) == (2, "", True)
    nothing = await lite.run("agents", "propose", "literature", "--why", "nothing")
    assert (nothing.exit_code, "say what changes" in nothing.stderr) == (2, True)


async def test_registrations_take_more_than_an_operators_scope(lite: Station):
    """operator:write holds for the tenant; what concerns everybody takes registry:admin: exit code 6."""
    mine, everybodys = ("agents", "hold", "literature", "--why", "x"), ("--version", "1")
    assert (await lite.run(*mine, *everybodys, scope="operator:read operator:write")).exit_code == 6
    assert (await lite.run(*mine, scope="operator:read operator:write")).exit_code == 0
