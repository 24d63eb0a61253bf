"""``python -m tests.faults``: run the fault suite and print what it found. Ends with 1 if any finding is not 0."""

import json
import random
import sys
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import get_args

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from relay.storage.engine import Dialect
from tests.faults.case import Case
from tests.faults.cases.catalog import CASES
from tests.faults.run import Engines, Result, engines, run

COLUMNS = {
    "lost": "lost",
    "doubled": "doubled",
    "unacknowledged": "saved, not\nacknowledged",
    "stuck": "stuck after\nthe lease",
    "unlogged": "sent, not\nlogged",
    "unexpected_5xx": "unexpected\n5xx",
    "breaches": "other",
}
"""Each finding, and the heading of its column."""


MOST_TOLD = 5
"""How many of what a case itself found are told in full."""


@click.command()
@click.option("--engine", type=click.Choice([*get_args(Dialect), "both"]), default="both", show_default=True)
@click.option("--short", is_flag=True, help="Few submissions a case, as in CI; without what only waits for long.")
@click.option("--only", multiple=True, metavar="NAME", help="This case alone; may be repeated.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="How many cases run at once.")
@click.option("--seed", type=int, help="Of everything that is left to chance. Without it, another one each time.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--list", "listing", is_flag=True, help="Print the cases and what goes wrong in each, and end.")
def main(
    engine: str, *, short: bool, only: Sequence[str], jobs: int, seed: int | None, as_json: bool, listing: bool
) -> None:
    """Let everything around the relay go wrong, and count what becomes of the ratings.

    Real relays run as processes against real databases. Each case is judged by what callers were told, by what the
    relay has on record, and by what the specialist really holds. Ends with 1 if anything is lost, doubled, saved
    without an acknowledgement or stuck, or if anything else is not as it must be.
    """
    known = {case.name for case in CASES}
    if unknown := set(only) - known:
        raise click.UsageError(f"no such case: {', '.join(sorted(unknown))}. There are: {', '.join(sorted(known))}")
    if listing:
        Console().print(catalogue())
        return
    wanted = [
        (case, one)
        for case in CASES
        for one in case.engines
        if engine in {one, "both"} and (case.name in only or not only) and (case.short or not short or only)
    ]
    seed = random.randrange(2**32) if seed is None else seed  # noqa: S311 - the seed of a test
    results = run_all(wanted, short=short, jobs=jobs, seed=seed)
    if as_json:
        click.echo(json.dumps({"seed": seed, "runs": [asdict(result) for result in results]}, indent=2))
    else:
        show(results, seed)
    sys.exit(0 if all(result.clean for result in results) else 1)


def run_all(wanted: Sequence[tuple[Case, Dialect]], *, short: bool, jobs: int, seed: int) -> list[Result]:
    """Run them, some at once, each in a thread and a loop of its own; the results in the order of ``wanted``."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        engines({engine for _, engine in wanted}) as made,
        ThreadPoolExecutor(jobs) as threads,
        Progress(*columns, console=Console(stderr=True)) as progress,
    ):
        bar = progress.add_task("runs", total=len(wanted))

        def run_one(case: Case, engine: Dialect) -> Result:
            result = guarded(case, engine, made, size=(case.short or case.full) if short else case.full, seed=seed)
            progress.console.print(f"{case.name} on {engine}: {word_for(result)}", style=style_of(result))
            progress.advance(bar)
            return result

        return list(threads.map(run_one, *zip(*wanted, strict=True)))


def guarded(case: Case, engine: Dialect, made: Engines, *, size: int, seed: int) -> Result:
    """A case that breaks down is no reason not to run the others, and is not clean."""
    try:
        return run(case, engine, made, size=size, seed=seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        told = "".join(traceback.format_exception(error))
        return Result(case=case.name, engine=engine, broken=told)


def word_for(result: Result) -> str:
    if result.skipped is not None:
        return f"not run, {result.skipped}"
    return "clean" if result.clean else "NOT CLEAN"


def style_of(result: Result) -> str | None:
    return None if result.clean else "bold red"


def catalogue() -> Table:
    table = Table("case", "what goes wrong", "engines", "submissions")
    for case in CASES:
        table.add_row(case.name, case.about, ", ".join(case.engines), str(case.full))
    return table


def show(results: Sequence[Result], seed: int) -> None:
    # As wide as the table is, where nobody watches: a log wraps nothing.
    console = Console(width=None if sys.stdout.isatty() else 180)
    table = Table(title=f"seed {seed}", title_justify="left")
    for heading in ("case", "engine"):
        table.add_column(heading, no_wrap=True)
    for heading in ("faults", "submissions", "attempts", *COLUMNS.values(), "seconds"):
        table.add_column(heading, justify="right")
    for result in results:
        table.add_row(result.case, result.engine, *cells(result), style=style_of(result))
    console.print(table)
    for result in results:
        for told in filter(None, (*result.wrong[:MOST_TOLD], result.skipped, result.broken)):
            console.print(f"{result.case} on {result.engine}: {told}", markup=False)
    dirty = sum(not result.clean for result in results)
    console.print(f"{dirty} of {len(results)} runs are not clean" if dirty else f"all {len(results)} runs are clean")


def cells(result: Result) -> list[str]:
    if result.findings is None:
        return ["not run"]
    counted = [getattr(result.findings, name) for name in COLUMNS]
    seconds = f"{result.seconds:.0f}"
    return [*(f"{number:,}" for number in (result.faults, result.submissions, result.attempts, *counted)), seconds]


if __name__ == "__main__":
    main()
