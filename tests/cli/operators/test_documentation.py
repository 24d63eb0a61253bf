"""Every command that docs/operators-cli.md shows works as printed, and every exit code stands there."""

import json
import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.cli.operators.exits import EXIT_CODES
from tests.cli.operators.conftest import Station, lines, seated
from tests.support.processes import until

PAGE = (Path(__file__).parents[3] / "docs" / "operators-cli.md").read_text()
COMMANDS = re.findall(r"^\$ relay operators (.+)$", PAGE, re.MULTILINE)


@pytest.fixture
async def patient(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Station]:
    """A relay that goes on trying every hour."""
    async with seated(tmp_path, sqlite_database_url, schedule='["0s", "1h", "1h", "1h"]') as station:
        yield station


async def test_the_commands_work_as_printed(patient: Station):
    """In their order, on a relay with one submission that is stuck; signing in is shown elsewhere."""
    owner, submission = await patient.rated("t1", 503, comment="the wrong unit")
    known = {"$OWNER": owner, "$ID": submission, "$JOB": "no job yet"}
    env = {"RELAY_URL": patient.url, "RELAY_TOKEN_FILE": str(patient.token_file())}
    for command in COMMANDS:
        if command.startswith("login"):
            continue
        for name, value in known.items():
            command = command.replace(name, value)  # noqa: PLW2901 - the same command, filled in
        words = [str(patient.directory / word) if word == "ratings.csv" else word for word in shlex.split(command)]
        config = ("--config", str(patient.directory / "relay.toml")) if "--direct" in words else ()
        done = await patient.plainly(*config, "operators", *words, **env)
        assert done.exit_code == 0, f"{command}: {done.stderr}"
        if words[1] == "retry":
            await attempted_again(patient)
        if "--yes" in words:
            known["$JOB"] = lines(await patient.plainly("operators", "jobs", "list", "--json", **env))[0]["id"]
    assert json.loads((await patient.run("jobs", "show", known["$JOB"], "--json")).stdout)["state"] == "finished"


async def attempted_again(station: Station) -> None:
    waiting = "SELECT 1 FROM deliveries WHERE attempt_count > 1 AND state = 'pending'"
    await until(lambda: station.relay.rows(waiting), "the retry, refused once more")


def test_the_exit_codes_are_those_of_the_help():
    """One list, in two places."""
    in_help = dict(re.findall(r"^  (\d+) +(.+)$", EXIT_CODES, re.MULTILINE))
    on_the_page = dict(re.findall(r"^\| (\d+) \| (.+) \|$", PAGE, re.MULTILINE))
    assert {code: text.partition(": relay operators")[0] for code, text in in_help.items()} == on_the_page
