"""The database itself, where no relay can be asked: the same commands, audited under the account's own name."""

import json
import os
import pwd
from pathlib import Path

import pytest

from relay.operators.direct import ROUTES
from tests.cli.operators.conftest import Station, lines
from tests.support.specialist import acknowledge

ACCOUNT = f"cli-direct:{pwd.getpwuid(os.getuid()).pw_name}"


async def test_what_waits_is_sent_again_and_given_up_without_a_relays_answer(station: Station):
    """Shown, retried and abandoned at the database; workers that run carry it out."""
    owner, submission = await station.rated("t1", 503)
    [one] = lines(await station.direct("submissions", "list", "--json"))
    assert (one["owner"], one["id"]) == (owner, submission)
    assert (await station.direct("submissions", "show", owner, submission)).exit_code == 0
    station.specialist.behave = acknowledge
    retried = await station.direct("submissions", "retry", owner, submission)
    assert (retried.exit_code, retried.stdout) == (0, "made due: pending\n")
    await station.relay.until(submission, "saved")
    [entry] = await station.audit("submission.retry")
    assert (entry["actor"], entry["why"], entry["tenant"]) == (ACCOUNT, "the relay is down", "acme")
    other, waiting = await station.rated("t2", 503)
    given_up = await station.direct("submissions", "abandon", other, waiting, "--why", "no use")
    assert given_up.exit_code == 0
    [entry] = await station.audit("submission.abandon")
    assert (entry["actor"], entry["why"]) == (ACCOUNT, "no use")
    assert (await station.direct("submissions", "abandon", other, waiting)).exit_code == 5
    assert (await station.direct("submissions", "show", "ok_nobody", waiting)).exit_code == 4


async def test_agents_are_held_and_let_go_directly(station: Station):
    """The tenant's hold, and everybody's; a relay that runs goes by it at once."""
    await station.rated("t1", 503)
    held = await station.direct("agents", "hold", "literature", "--json")
    done = json.loads(held.stdout)
    assert (done["parked"], done["agent"]["hold"]["by"]) == (1, ACCOUNT)
    await station.relay.record("t2")
    assert (await station.relay.rate("t2")).json["state"] == "held"
    assert json.loads((await station.direct("agents", "resume", "literature", "--json")).stdout)["freed"] == 2
    everybodys = ("literature", "--version", "1")
    for command in ("hold", "resume"):
        assert (await station.direct("agents", command, *everybodys)).exit_code == 0
    listed = lines(await station.direct("agents", "list", "--json"))
    assert {one["agent"] for one in listed} == {"chemistry", "literature"}


async def test_coming_directly_is_itself_in_the_audit_log(station: Station):
    """Also of who only looks: who, why, and by which command, before anything is shown."""
    for command in (("jobs", "list"), ("tasks", "contested"), ("analytics",), ("watch", "--count", "1")):
        assert (await station.direct(*command)).exit_code == 0
    entries = await station.audit("direct.use")
    assert {(one["actor"], one["why"], one["tenant"]) for one in entries} == {(ACCOUNT, "the relay is down", "acme")}
    commands = [json.loads(one["after"])["command"] for one in entries]
    assert commands == [f"relay operators {name}" for name in ("jobs list", "tasks contested", "analytics", "watch")]
    seen = lines(await station.run("audit", "list", "--action", "direct.use", "--json"))
    assert len(seen) == len(commands)


async def test_many_are_done_by_whichever_relay_runs(station: Station, tmp_path: Path):
    """A job is written down directly and followed; and what is there is taken away as a file."""
    await station.rated("t1", 503)
    done = await station.direct("submissions", "bulk-abandon", "--state", "pending", "--yes", "--json")
    assert (done.exit_code, json.loads(done.stdout)["results"]) == (0, {"abandoned": 1})
    file = tmp_path / "all.jsonl"
    assert (await station.direct("export", "--format", "jsonl", "-o", str(file))).exit_code == 0
    assert json.loads(file.read_text())["state"] == "abandoned"
    [begun] = await station.audit("export.begin")
    assert begun["actor"] == ACCOUNT


async def test_another_tenants_rows_are_not_there(lite: Station):
    """--tenant says whose submissions are meant, and no others are."""
    owner, submission = await lite.rated("t1", 503)
    said = (
        "--config",
        str(lite.directory / "relay.toml"),
        "operators",
        "--direct",
        "--reason",
        "x",
        "--tenant",
        "other",
    )
    assert lines(await lite.plainly(*said, "submissions", "list", "--json")) == []
    assert (await lite.plainly(*said, "submissions", "retry", owner, submission)).exit_code == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--direct", "--tenant", "acme"), "say --reason"),
        (("--direct", "--reason", "x"), "Say --tenant"),
        (("--reason", "x"), "go with --direct"),
    ],
)
async def test_it_is_refused_without_a_reason_and_a_tenant(lite: Station, options: tuple[str, ...], said: str):
    """Exit code 2, and nothing is written."""
    config = ("--config", str(lite.directory / "relay.toml"))
    refused = await lite.plainly(*config, "operators", *options, "submissions", "list")
    assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert await lite.audit("direct.use") == []


async def test_it_needs_a_configuration_and_is_no_sign_in(lite: Station):
    """Without a database to open, and where only the API makes sense: exit code 2."""
    direct = ("operators", "--direct", "--reason", "x", "--tenant", "acme")
    assert (await lite.plainly(*direct, "submissions", "list")).exit_code == 2
    assert (await lite.plainly(*direct, "login")).exit_code == 2


async def test_four_eyes_are_not_gone_around(lite: Station):
    """Here one person would have a second name: proposing and approving go by `relay agents`, where accounts count."""
    config = lite.directory / "relay.toml"
    config.write_text(config.read_text().replace("four_eyes = false", "four_eyes = true"))
    refused = await lite.direct("agents", "approve", "literature", "1")
    assert (refused.exit_code, "relay agents" in refused.stderr) == (1, True)
    refused = await lite.direct("agents", "propose", "literature", "--in-flight", "1")
    assert refused.exit_code == 1


def test_it_is_all_of_the_operators_api():
    """What operators can do over HTTP they can do directly: no route is left out."""
    from relay.api import ROUTES as ALL  # noqa: PLC0415

    def names(routes: object) -> set[str]:
        return {route.kwargs["name"] for route in routes if route.path.startswith(("/api/operator", "/api/analytics"))}  # type: ignore[attr-defined]

    assert names(ROUTES) == names(ALL)
