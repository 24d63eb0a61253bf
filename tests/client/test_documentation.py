"""What docs/clients.md shows works as printed, each program in a process of its own."""

import asyncio
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import relay.client
from relay.client import RelayClient
from tests.support.gateway import Gateway
from tests.support.specialist import Held, Specialist

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()
RATE, FOLLOW = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@asynccontextmanager
async def running(program: str, directory: Path, relay: Gateway) -> AsyncIterator[asyncio.subprocess.Process]:
    """The program in this directory, with alice's token and the Workbench's."""
    known = {"RELAY": f"http://127.0.0.1:{relay.port}", "ALICE": relay.token(), "WORKBENCH": relay.machine}
    process = await asyncio.create_subprocess_exec(
        *("env", *(f"{name}={value}" for name, value in known.items()), sys.executable, "-c", program),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def printed_by(program: str, directory: Path, relay: Gateway) -> str:
    async with running(program, directory, relay) as process:
        output, _ = await process.communicate()
        return output.decode().strip()


async def until_printed(process: asyncio.subprocess.Process, wanted: str) -> list[str]:
    """What it prints, up to this line."""
    assert process.stdout is not None
    lines: list[str] = []
    while wanted not in lines:
        line = (await process.stdout.readline()).decode()
        assert line, "\n".join(lines)
        lines.append(line.strip())
    return lines


async def test_rating_as_printed(relay: Gateway, literature: Specialist, tmp_path: Path):
    """Run twice it prints what the page says, and the specialist has one rating."""
    first, second = (await printed_by(RATE, tmp_path, relay), await printed_by(RATE, tmp_path, relay))
    assert f"The first run prints `{first}`, the second one `{second}`." in PAGE
    assert [post.json["comment"] for post in literature.posts] == ["The unit is wrong"]


async def test_rating_after_a_crash(relay: Gateway, literature: Specialist, tmp_path: Path):
    """Killed while the relay has its rating and the answer is on its way, it sends the same when it runs again."""
    literature.behave = held = Held()
    async with running(RATE, tmp_path, relay) as process:
        await literature.wait_for_posts(1)
    assert process.returncode == -signal.SIGKILL
    held.let_go()
    assert await printed_by(RATE, tmp_path, relay) == "literature: down, saved"
    assert (
        len({post.json["id"] for post in literature.posts}) == len(await relay.rows("SELECT 1 FROM submissions")) == 1
    )
    assert not (tmp_path / "unsent.json").exists()


async def test_following_as_printed(relay: Gateway, tmp_path: Path):
    """It lists first, tells what changes, and after a kill goes on where it was, without another list."""
    await relay.record("t1")
    await relay.rate("t1")
    async with running(FOLLOW, tmp_path, relay) as process:
        await until_printed(process, "stands: t1 saved")
        await relay.record("t2")
        await relay.rate("t2")
        await until_printed(process, "changed: t2 saved")
    await relay.record("t3")
    await relay.rate("t3")
    async with running(FOLLOW, tmp_path, relay) as process:
        lines = await until_printed(process, "changed: t3 saved")
    assert not any(line.startswith("stands:") for line in lines)


def test_everything_that_can_be_imported_stands_there():
    """The page names each error and each method."""
    methods = {name for name in vars(RelayClient) if not name.startswith("_")}
    errors = {name for name in relay.client.__all__ if name.endswith("Error")} - {"FieldError"}
    assert {name for name in methods | errors if f"`{name}" not in PAGE and f"`await {name}" not in PAGE} == set()
