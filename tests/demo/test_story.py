"""``relay demo`` as a newcomer runs it: processes of its own, the whole story, and an exit code that is true."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from registry.egress import Egress, EgressPolicy

pytestmark = pytest.mark.timeout(300)  # five servers start for each run, on whatever machine this is

DEMO = ("-m", "relay", "demo")


@dataclass
class Demonstration:
    """One run of the demonstration, with the directory that its files go to."""

    process: asyncio.subprocess.Process
    files: Path

    async def line(self, containing: str = "") -> str:
        """The next line of its output that contains this."""
        assert self.process.stdout is not None
        said = []
        while line := (await self.process.stdout.readline()).decode():
            said.append(line)
            if containing in line:
                return line
        raise AssertionError(f"it ended without saying {containing!r}, but: {''.join(said)}")

    async def summary(self) -> dict[str, Any]:
        """The first line, for scripts."""
        read: dict[str, Any] = json.loads(await self.line("{"))
        return read

    def left(self) -> list[Path]:
        """What lies in its directory."""
        return list(self.files.iterdir())

    async def end(self) -> tuple[int, str]:
        """Its exit code, and what else it said."""
        output, _ = await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode, output.decode()

    def servers(self) -> dict[str, int]:
        """The processes that it has started, by what they are."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0") for pid in children}
        return {"relay" if "serve" in words else words[2]: pid for pid, words in commands.items()}


@asynccontextmanager
async def demonstration(files: Path, *arguments: str) -> AsyncIterator[Demonstration]:
    process = await asyncio.create_subprocess_exec(
        *("env", f"TMPDIR={files}", sys.executable, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield Demonstration(process, files)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.communicate()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_tells_the_whole_story_and_ends_well(tmp_path: Path):
    """The documented line comes first; then every exchange, from recorded and stored to saved; nothing stays behind."""
    async with demonstration(tmp_path, *DEMO, "--once", "--json") as demo:
        summary = await demo.summary()
        code, output = await demo.end()
    assert code == 0, output
    assert summary.keys() == {"relay", "console", "workbench", "issuer", "ca_file", "tokens", "agents"}
    assert summary["relay"].startswith("http://127.0.0.1:")
    assert summary["issuer"].startswith("http://127.0.0.1:")
    assert summary["tokens"].keys() == {"alice", "bob", "operator", "workbench"}
    assert summary["agents"].keys() == {"literature", "chemistry"}
    for agent in summary["agents"].values():
        assert agent["origin"].startswith("https://localhost:")
        assert all(task["owner"] == "alice" for task in agent["tasks"].values())
        assert agent["tasks"]
    for said in ("< 201", "< 202", '"state": "saved"', '"saved": true', "✔ saved under the same UUID"):
        assert said in output
    assert "✘" not in output
    assert not any(token in output for token in summary["tokens"].values())
    assert demo.left() == []


async def test_it_stays_up_for_a_visitor_until_it_is_told_to_stop(tmp_path: Path):
    """Its addresses, its authority and its tokens work for somebody else; SIGTERM then ends all of it, with 0."""
    async with demonstration(tmp_path, *DEMO, "--json") as demo:
        summary = await demo.summary()
        servers = demo.servers()
        await demo.line("Your turn")
        policy = EgressPolicy(development=True, ca_file=summary["ca_file"])
        async with Egress(policy) as egress:
            headers = {"authorization": f"Bearer {summary['tokens']['alice']}"}
            own = await egress.exchange("GET", f"{summary['relay']}/api/feedback", headers=headers, deadline=30)
            origin = summary["agents"]["literature"]["origin"]
            stranger = await egress.exchange("GET", f"{origin}/api/feedback", headers={}, deadline=30)
        assert (own.status, stranger.status) == (200, 401)
        assert {item["state"] for item in json.loads(own.body)["items"]} == {"saved"}
        demo.process.send_signal(signal.SIGTERM)
        assert (await demo.end())[0] == 0
    assert servers.keys() == {"relay", "relay.demo.issuer", "relay.demo.specialist", "relay.demo.workbench"}
    assert not any(is_running(pid) for pid in servers.values())
    assert demo.left() == []


async def test_a_relay_that_dies_is_told_of_and_is_no_success(tmp_path: Path):
    """Killed in the middle of the story: a sentence, where the logs are, and an exit code that is not 0."""
    async with demonstration(tmp_path, *DEMO, "--once", "--json") as demo:
        await demo.summary()
        os.kill(demo.servers()["relay"], signal.SIGKILL)
        code, output = await demo.end()
    assert code == 1
    assert "✘" in output
    assert "Traceback" not in output
    [logs] = demo.left()
    assert f"logs are in {logs}" in output
    assert (logs / "relay.log").exists()


async def test_a_story_that_is_broken_off_is_no_success(tmp_path: Path):
    """Ctrl-C before the end: everything stops and is tidied up, and the exit code says that it was not told."""
    async with demonstration(tmp_path, *DEMO, "--once", "--json") as demo:
        await demo.summary()
        demo.process.send_signal(signal.SIGINT)
        code, output = await demo.end()
    assert code == 1
    assert "Traceback" not in output
    assert demo.left() == []


async def test_a_story_that_takes_too_long_is_no_success(tmp_path: Path):
    """Past its deadline it says so and ends with 1: here the deadline is shorter than any story."""
    program = (
        "import sys; from relay.demo import story; sys.exit(story.main(once=True, json=True, deadline_seconds=0.001))"
    )
    async with demonstration(tmp_path, "-c", program) as demo:
        await demo.summary()
        code, output = await demo.end()
    assert code == 1
    assert "✘ the demonstration took too long" in output
    assert "Traceback" not in output
