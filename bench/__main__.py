"""The benchmarks: pairs of things measured by turns in one run, as ratios, since machines differ and are noisy.

    python -m bench [--only NAME]... [--rounds 5] [--write docs/benchmarks.md]

Needs the development dependencies, those of the group ``bench``, and wrk.
"""

import argparse
import asyncio
import datetime as dt
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from rich.console import Console

from bench import report, stage
from bench.accept import accept
from bench.console import console as console_pages
from bench.drain import drain
from bench.history import history
from bench.live import live
from bench.memory import memory
from bench.results import Measured
from bench.stalled import stalled

console = Console()

Work = Callable[[Path, stage.Cluster], Awaitable[list[Measured]]]


def works(arguments: argparse.Namespace) -> dict[str, Work]:
    rounds, seconds = arguments.rounds, arguments.seconds
    return {
        "accept-postgresql": lambda d, c: accept("postgresql", d, c, rounds, seconds),
        "accept-sqlite": lambda d, c: accept("sqlite", d, c, rounds, seconds),
        "drain": lambda d, c: drain(d, c, rounds, arguments.deliveries),
        "stalled": lambda d, c: stalled(d, c, rounds, arguments.deliveries),
        "live": lambda d, c: live(d, c, rounds, 300),
        "console": lambda d, c: console_pages(d, c, rounds, arguments.consoled),
        "history": lambda d, c: history(d, c, rounds, arguments.rows),
        "memory": lambda d, c: memory(d, c, arguments.submissions),
    }


async def run(arguments: argparse.Namespace) -> list[Measured]:
    measured: list[Measured] = []
    async with stage.cluster() as cluster:
        for name, work in works(arguments).items():
            if arguments.only and name not in arguments.only:
                continue
            with tempfile.TemporaryDirectory() as directory, console.status(f"{name} …"):
                found = await work(Path(directory), cluster)
            for one in found:
                console.print(report.line(one))
            measured += found
    return measured


def main() -> int:
    parser = argparse.ArgumentParser(description="Ratios of the relay to the bare thing.")
    parser.add_argument("--only", action="append", help="one benchmark; may be given again")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5, help="of load in a round of accepting")
    parser.add_argument("--deliveries", type=int, default=5_000, help="in a round of draining")
    parser.add_argument("--rows", type=int, default=5_000_000, help="finished, for the history")
    parser.add_argument("--consoled", type=int, default=1_000_000, help="submissions behind the console's pages")
    parser.add_argument("--submissions", type=int, default=100_000, help="for the memory")
    parser.add_argument("--write", type=Path, help="a Markdown file whose table and plot are to be replaced")
    arguments = parser.parse_args()
    before = os.getloadavg()[0]
    measured = asyncio.run(run(arguments))
    conditions = (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"load before {before:.1f}, {arguments.rounds} rounds"
    )
    console.print(conditions)
    if arguments.write:
        report.write(arguments.write, measured, conditions)
    print(json.dumps([report.plain(one) for one in measured]), file=sys.stderr)
    return 0 if all(one.reached is not False for one in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
