"""Following a job to its end, with a bar for people and a line for every step where it goes into a file."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

import click

from relay.cli.operators.exits import INTERRUPTED
from relay.cli.operators.printing import print_document, print_facts, told, when
from relay.cli.running import FAILED

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk
    from relay.cli.operators.terminal import Terminal

LOOK_SECONDS: Final = 0.5
OPEN: Final = ("waiting", "running")

Job = dict[str, Any]


def follow(terminal: "Terminal", job: Job, *, as_json: bool) -> None:
    """Follow a job and report on it. Ends the process with 1 unless it finished; interrupting does not stop the job."""

    async def look(desk: "Desk") -> Job:
        with _progress(job) as moved:
            return await _to_the_end(desk, job, moved)

    try:
        ended = terminal.ask(look)
    except KeyboardInterrupt:
        click.echo(f"\nthe job goes on. Follow it: relay operators jobs follow {job['id']}", err=True)
        click.get_current_context().exit(INTERRUPTED)
    report(ended, terminal.zone, as_json=as_json)
    if ended["state"] != "finished":
        click.get_current_context().exit(FAILED)


async def _to_the_end(desk: "Desk", job: Job, moved: Callable[[Job], None]) -> Job:
    moved(job)
    while job["state"] in OPEN:
        await asyncio.sleep(LOOK_SECONDS)
        job = await desk.get("api", "operator", "jobs", job["id"], patient=True)
        moved(job)
    return job


def report(job: Job, zone: tzinfo, *, as_json: bool) -> None:
    """How the job stands."""
    if as_json:
        print_document(job)
        return
    print_facts(
        {
            "job": job["id"],
            "does": job["kind"],
            "of": told_filter(job["filter"]),
            "state": job["state"],
            "examined": f"{job['examined']:,} of {job['total']:,}",
            "results": told({name.replace("_", " "): n for name, n in job["results"].items()}),
            "problem": job["problem"],
            "asked for by": job["by"],
            "why": job["why"],
            "created": when(job["createdAt"], zone),
            "finished": when(job["finishedAt"], zone),
        }
    )


def told_filter(wanted: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in wanted.items() if value is not None) or "everything"


@contextmanager
def _progress(job: Job) -> Iterator[Callable[[Job], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(job["kind"], total=job["total"] or 1)

        def moved(now: Job) -> None:
            done = now["state"] == "finished"
            # What left the filter meanwhile is never examined: a finished job is all done.
            at = (now["total"] or 1) if done else now["examined"]
            bar.update(task, completed=at, description=f"{now['kind']}: {now['state']}")

        yield moved


def _lines() -> Callable[[Job], None]:
    """On stderr, a line whenever something has moved."""
    last: tuple[str, int] | None = None

    def moved(now: Job) -> None:
        nonlocal last
        if (now["state"], now["examined"]) != last:
            last = now["state"], now["examined"]
            click.echo(f"{now['state']}: {now['examined']:,} of {now['total']:,}", err=True)

    return moved
