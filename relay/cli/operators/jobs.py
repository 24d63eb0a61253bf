"""``relay operators jobs``"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from relay.cli.operators import lists
from relay.cli.operators.following import follow as follow_to_the_end
from relay.cli.operators.following import report, told_filter
from relay.cli.operators.options import json_option, lines_option, paged
from relay.cli.operators.printing import told, when

if TYPE_CHECKING:
    from datetime import tzinfo

    from relay.cli.operators.terminal import Terminal

STATES: Final = ("waiting", "running", "finished", "canceled", "failed")
COLUMNS: Final = ("created", "does", "of", "state", "examined", "total", "results", "by", "id")


@click.group()
def jobs() -> None:
    """Look at bulk jobs, and stop them.

    A job is work on many submissions. It goes on in the background, whoever looks.
    """


@jobs.command("list")
@click.option("--state", type=click.Choice(STATES), help="In this state.")
@paged
@lines_option
@click.pass_obj
def list_jobs(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """List jobs, newest first."""
    row = partial(_row, terminal.zone)
    lists.show(terminal, ("api", "operator", "jobs"), said, {"state": said["state"]}, COLUMNS, row)


@jobs.command()
@click.argument("job")
@json_option
@click.pass_obj
def show(terminal: "Terminal", /, job: str, *, as_json: bool) -> None:
    """Show how far JOB has come, and what it did to how many."""
    report(terminal.ask(lambda desk: desk.get("api", "operator", "jobs", job)), terminal.zone, as_json=as_json)


@jobs.command()
@click.argument("job")
@json_option
@click.pass_obj
def follow(terminal: "Terminal", /, job: str, *, as_json: bool) -> None:
    """Follow JOB to its end. Interrupting this does not stop the job."""
    follow_to_the_end(terminal, terminal.ask(lambda desk: desk.get("api", "operator", "jobs", job)), as_json=as_json)


@jobs.command()
@click.argument("job")
@json_option
@click.pass_obj
def cancel(terminal: "Terminal", /, job: str, *, as_json: bool) -> None:
    """Have JOB touch nothing more. What it has done stays done."""
    ended = terminal.ask(lambda desk: desk.post("api", "operator", "jobs", job, "cancel"))
    report(ended, terminal.zone, as_json=as_json)


def _row(zone: "tzinfo", job: dict[str, Any]) -> tuple[object, ...]:
    results = told({name.replace("_", " "): n for name, n in job["results"].items()})
    times = (when(job["createdAt"], zone), job["kind"], told_filter(job["filter"]), job["state"])
    return (*times, job["examined"], job["total"], results, job["by"], job["id"])
