"""``relay check-config --online`` from the outside: what it prints, and how it ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from relay.cli import main
from tests.support.reachable import Surroundings, surroundings


async def checked(around: Surroundings, *options: str) -> Result:
    """The command, in a thread of its own beside the servers that it looks at."""
    arguments = ["--config", str(around.config), "check-config", *options]
    return await asyncio.to_thread(CliRunner().invoke, main, arguments, prog_name="relay")


async def test_all_in_order_ends_with_0(tmp_path: Path):
    """A line for each thing that was looked at, then the summary; no progress bar where nobody is watching."""
    async with surroundings(tmp_path) as around:
        result = await checked(around, "--online")
        assert (result.exit_code, result.stderr) == (0, "")
        *lines, summary = result.stdout.splitlines()
        assert [line.split(": ")[0] for line in lines] == [
            f"ok          issuer {around.issuer.url}",
            f"ok          token endpoint {around.endpoint.url}",
            f"ok          agent https://localhost:{around.agent.port}",
        ]
        assert summary.startswith(f"{around.config} is in order: ")


async def test_what_would_fail_ends_with_1(tmp_path: Path):
    """The others are told as well; the one at fault with the key to change, and the summary is left out."""
    async with surroundings(tmp_path) as around:
        around.endpoint.answer = (404, b"")
        result = await checked(around, "--online")
        assert result.exit_code == 1
        first, fault, last = result.stdout.splitlines()
        assert first.startswith("ok ")
        assert last.startswith("ok ")
        assert fault == (
            f"would fail  token endpoint {around.endpoint.url}:"
            " it does not refuse as a token endpoint does (status 404)."
            " [[agents]] literature, credentials no. 2, token_endpoint:"
            " check token_endpoint against the authorization server's metadata"
        )


async def test_json_is_for_programs(tmp_path: Path):
    """One document, whether or not all is in order."""
    async with surroundings(tmp_path) as around:
        good: dict[str, Any] = json.loads((await checked(around, "--online", "--json")).stdout)
        assert (good["ok"], [each["ok"] for each in good["findings"]]) == (True, [True, True, True])
        around.issuer.fail(503)
        result = await checked(around, "--online", "--json")
        bad: dict[str, Any] = json.loads(result.stdout)
        assert (result.exit_code, bad["ok"]) == (1, False)
        assert bad["findings"][0] == {
            "kind": "issuer",
            "url": around.issuer.url,
            "key": f"[[identity.issuers]] {around.issuer.url}",
            "ok": False,
            "problem": "status_503",
            "found": "answers with status 503",
            "advice": "check the issuer, or set jwks_uri to where it keeps its keys",
        }


async def test_without_online_nothing_is_connected_to(tmp_path: Path):
    """The plain check is for machines that cannot reach anything; --json belongs to the other."""
    async with surroundings(tmp_path) as around:
        assert (await checked(around)).exit_code == 0
        assert (around.issuer.fetches, around.endpoint.forms, around.agent.connections) == (0, [], 0)
        misused = await checked(around, "--json")
        assert (misused.exit_code, "--json goes with --online" in misused.stderr) == (2, True)


async def test_a_wrong_file_is_told_before_anything_is_asked(tmp_path: Path):
    """Exit code 2 as ever: what cannot be read cannot be looked at."""
    async with surroundings(tmp_path) as around:
        around.change("[server]\n", "[server]\nhots = 1\n")
        assert (await checked(around, "--online")).exit_code == 2
        assert around.agent.connections == 0
