"""Exports and the live view: files that are whole or not there, and what is seen while it changes."""

import asyncio
import csv
import json
import os
import pty
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow.parquet as pq

from tests.cli.operators.conftest import Station, lines

WATCHED = ("watch", "--interval", "0.2")


async def test_a_file_is_there_when_it_is_whole(station: Station, tmp_path: Path):
    """In each format, under the filter, for nobody else to read; - prints it."""
    await station.rated("t1", comment="=1+1")
    await station.rated("t2", 503)
    for name in ("csv", "jsonl", "parquet"):
        done = await station.run("export", "--format", name, "-o", str(tmp_path / f"x.{name}"), "--state", "saved")
        assert (done.exit_code, done.stdout) == (0, "")
        assert stat.S_IMODE((tmp_path / f"x.{name}").stat().st_mode) == 0o600
    with (tmp_path / "x.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert row["comment"] == "'=1+1"
    assert json.loads((tmp_path / "x.jsonl").read_text())["comment"] == "=1+1"
    assert pq.read_table(tmp_path / "x.parquet").num_rows == 1
    printed = await station.run("export", "--format", "jsonl", "-o", "-")
    assert [one["taskId"] for one in lines(printed)] == ["t2", "t1"]
    assert not partials(tmp_path)


def partials(directory: Path) -> list[Path]:
    return list(directory.glob(".*.part"))


@asynccontextmanager
async def breaking_off(said: bytes) -> AsyncIterator[str]:
    """Something in the relay's place that answers with these bytes and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_file_that_breaks_off_leaves_what_was_there(lite: Station, tmp_path: Path):
    """Half an answer is exit code 3: no half file, nothing beside it, and an earlier one stays as it was."""
    kept = tmp_path / "out" / "kept.csv"
    kept.parent.mkdir()
    kept.write_text("of yesterday")
    half = b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nowner\r\nff\r\nhalf"
    async with breaking_off(half) as url:
        said = ("operators", "--relay", url, "--token-file", str(lite.token_file()), "export", "--format", "csv")
        broken = await lite.plainly(*said, "-o", str(kept))
    assert (broken.exit_code, "cannot be reached" in broken.stderr) == (3, True)
    assert [path.name for path in kept.parent.iterdir()] == ["kept.csv"]
    assert kept.read_text() == "of yesterday"


async def test_a_file_that_cannot_be_written_or_is_refused_is_not_begun(lite: Station, tmp_path: Path):
    """A directory that is not there is 3, a token that may not is 6, and something that is no relay is 3."""
    absent = await lite.run("export", "--format", "csv", "-o", str(tmp_path / "absent" / "x.csv"))
    assert (absent.exit_code, "cannot be written: No such file or directory" in absent.stderr) == (3, True)
    file = tmp_path / "x.csv"
    assert (await lite.run("export", "--format", "csv", "-o", str(file), scope="feedback:read")).exit_code == 6
    async with breaking_off(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno") as url:
        said = ("operators", "--relay", url, "--token-file", str(lite.token_file()))
        other = await lite.plainly(*said, "export", "--format", "csv", "-o", str(file))
    assert (other.exit_code, "something else than a relay's" in other.stderr) == (3, True)
    assert not file.exists()


async def test_in_a_pipe_each_look_is_a_line_and_so_is_each_change(station: Station):
    """What waits, what became of the day's ratings, and of the newest what is new; Ctrl-C ends it with 0."""
    await station.rated("t1", 503)
    process = await asyncio.create_subprocess_exec(*program(station), stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    look = (await process.stdout.readline()).decode()
    assert "waiting: pending 1 (oldest since" in look
    assert look.endswith("24 h: pending 1\n")
    _, submission = await station.rated("t2")
    seen = await line_with(process.stdout, submission)
    assert seen.startswith("  ")
    assert "literature  t2  new, saved" in seen
    await line_with(process.stdout, "24 h: pending 1, saved 1")
    process.send_signal(signal.SIGINT)
    await process.stdout.read()
    assert await process.wait() == 0


async def test_looks_are_json_for_programs(station: Station):
    """All that was seen, a line for each look."""
    _, submission = await station.rated("t1", 503)
    [look] = lines(await station.run(*WATCHED, "--count", "1", "--json"))
    assert (look["backlog"]["pending"], look["newest"][0]["id"], look["breakersOpen"]) == (1, submission, [])
    assert look["lastDay"]["states"] == {"pending": 1}


async def test_on_a_terminal_it_stays_until_q(lite: Station):
    """The screen shows what waits, the agents and the newest; q ends it, with 0 and the terminal as it was."""
    await lite.rated("seen-task", 503)
    own, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *program(lite),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"},  # noqa: TID251
    )
    os.close(theirs)
    shown = await read_until(own, b"seen-task")
    assert b"literature" in shown
    assert b"q ends" in shown
    os.write(own, b"q")
    drained = asyncio.ensure_future(asyncio.to_thread(drain, own))
    assert await process.wait() == 0
    await drained
    os.close(own)


def program(station: Station) -> tuple[str, ...]:
    """The live view as a process of its own."""
    said = ("--relay", station.url, "--token-file", str(station.token_file()))
    return sys.executable, "-m", "relay", "operators", *said, *WATCHED


async def line_with(stream: asyncio.StreamReader, wanted: str) -> str:
    """The first line that says this; the test's timeout bounds the wait."""
    while True:
        line = (await stream.readline()).decode()
        assert line, f"it ended without {wanted}"
        if wanted in line:
            return line


async def read_until(descriptor: int, wanted: bytes) -> bytes:
    """What comes out of a terminal; the test's timeout bounds the wait."""
    shown = b""
    while wanted not in shown:
        shown += await asyncio.to_thread(os.read, descriptor, 65_536)
    return shown


def drain(descriptor: int) -> None:
    """Read until nobody holds the other end."""
    try:
        while os.read(descriptor, 65_536):
            pass
    except OSError:  # Linux says so when the last one has closed it
        return
