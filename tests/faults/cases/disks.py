"""SQLite's disk is full, or cannot be written, and then it can."""

import asyncio
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url

from relay.cli.running import WRONG_SURROUNDINGS
from tests.faults.case import DATABASE_AWAY, Case, NotHereError
from tests.faults.cases.databases import busy
from tests.faults.stage import Stage
from tests.faults.witness import saying
from tests.support.processes import Process, until

DISK_BYTES = 16 * 2**20
BUSY = saying(503, lambda _: {})

REFUSALS = 20
"""How many callers must have been told that the database cannot be had before the disk has room again."""


@contextmanager
def small_disk(directory: Path) -> Iterator[Path]:
    """A file system of its own, in memory, of a few megabytes."""
    disk = directory / "disk"
    disk.mkdir()
    if not mounts("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)):
        raise NotHereError("file systems may not be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def mounts(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0


def file_of(stage: Stage) -> Path:
    return Path(make_url(stage.database_url).database or "")


async def refused(stage: Stage) -> bool:
    return len(stage.people.refused) >= REFUSALS


async def rate_meanwhile(stage: Stage, group: asyncio.TaskGroup) -> None:
    """Two thirds of the ratings come in while nothing can be written; returns when enough have been refused."""
    group.create_task(stage.rate(stage.size - stage.size // 3))
    await until(lambda: refused(stage), "callers that are refused")
    stage.faults += len(stage.people.refused)


async def fill_the_disk(stage: Stage) -> None:
    await stage.open()
    await stage.rate(stage.size // 3)
    ballast = file_of(stage).with_name("ballast")
    async with asyncio.TaskGroup() as group:
        fill(ballast)
        filling = group.create_task(keep_full(ballast))
        await rate_meanwhile(stage, group)
        filling.cancel()
        ballast.unlink()


async def keep_full(ballast: Path) -> None:
    """Take what room becomes free, as a log that runs wild would."""
    while True:
        fill(ballast)
        await asyncio.sleep(0.01)


def fill(ballast: Path) -> None:
    try:
        with ballast.open("ab", buffering=0) as file:
            while file.write(b"\0" * 4096) == 4096:
                pass
    except OSError:
        return


async def limit_the_file(stage: Stage) -> None:
    """No file of the process may grow beyond what it is (RLIMIT_FSIZE): every write behind its end fails."""
    process = await stage.serve()
    stage.people.go_to(process)
    await stage.rate(stage.size // 3)
    async with asyncio.TaskGroup() as group:
        limit(process, file_of(stage).stat().st_size // 4)
        await rate_meanwhile(stage, group)
        limit(process, resource.RLIM_INFINITY)


def limit(process: Process, size: int) -> None:
    _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, most))


async def read_only(stage: Stage) -> None:
    """Restarted on a file that it may not write, a relay refuses to start and says so; later it finds what waits."""
    stage.witness.plan, healthy = lambda _: BUSY, stage.witness.plan
    process = await stage.serve()
    stage.people.go_to(process)
    await stage.rate()
    stage.people.go_to()
    process.terminate()
    await process.ended()
    stage.witness.plan = healthy
    await stage.db.close()  # a file system with open files would not be remounted
    with unwritable(file_of(stage).parent):
        refusing = await stage.processes.start(Process, "serve")
        code = await refusing.ended()
        stage.faults += 1
        if code != WRONG_SURROUNDINGS or not any("the database cannot be used" in line for line in refusing.lines):
            stage.breaches.append(f"a relay that cannot write ended with {code} and did not say why")
    stage.people.go_to(await stage.serve())


@contextmanager
def unwritable(directory: Path) -> Iterator[None]:
    """Nobody writes here: a file system that is mounted read-only, or for who is not root, files without the right."""
    if os.path.ismount(directory):
        if not mounts("-o", "remount,ro", str(directory)):
            raise NotHereError("file systems may not be remounted here")
        try:
            yield
        finally:
            mounts("-o", "remount,rw", str(directory))
        return
    paths = [directory, *directory.iterdir()]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


@contextmanager
def place_to_lock(directory: Path) -> Iterator[Path]:
    """Root writes where it may not, except on a file system that is mounted read-only."""
    if os.geteuid() == 0:
        with small_disk(directory) as disk:
            yield disk
    else:
        place = directory / "data"
        place.mkdir()
        yield place


CASES = (
    Case(
        name="disk-full",
        about="the file system is full, then it has room again",
        act=fill_the_disk,
        engines=("sqlite",),
        plan=busy,
        excused=DATABASE_AWAY,
        place=small_disk,
    ),
    Case(
        name="file-limit",
        about="the process may not make its files longer (RLIMIT_FSIZE), then it may again",
        act=limit_the_file,
        engines=("sqlite",),
        plan=busy,
        excused=DATABASE_AWAY,
    ),
    Case(
        name="read-only",
        about="a restart on a file that cannot be written, then on one that can",
        act=read_only,
        engines=("sqlite",),
        full=500,
        place=place_to_lock,
    ),
)
