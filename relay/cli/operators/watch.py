"""``relay operators watch``: a live view for people, or a line for every look where it goes into a pipe."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import click

from relay.cli.operators.looks import Look, changes, line, look
from relay.cli.operators.printing import print_line
from relay.cli.running import WRONG_SURROUNDINGS, Failure

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk
    from relay.cli.operators.terminal import Terminal

ENDING: Final = frozenset(b"qQ\x04")
"""The last is Ctrl-D."""


@click.command()
@click.option(
    "--interval", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds between looks."
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many looks. Left out: with q or Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON Lines: all that was seen, a line for each look.")
@click.pass_obj
def watch(terminal: "Terminal", /, *, interval: float, count: int | None, as_json: bool) -> None:
    """Watch the relay live.

    What waits, what became of the last 24 hours' ratings, open breakers, running jobs, and the newest submissions.

    On a terminal it stays on the screen until you press q or Ctrl-C. In a pipe it prints a line for each look, and one
    for each of the newest submissions that is new or has changed its state. A relay that is away is told, and waited
    for.
    """

    async def keep_looking(desk: "Desk") -> None:
        looks = _looks(desk, interval, count)
        if as_json:
            await _as_json(looks)
        elif sys.stdout.isatty():
            await _live(terminal, looks)
        else:
            await _lines(terminal, looks)

    with suppress(KeyboardInterrupt):
        terminal.ask(keep_looking)


async def _looks(desk: "Desk", interval: float, count: int | None) -> AsyncIterator[Look | Failure]:
    """One look after another. The first has to succeed; later a relay that is away is no end of it."""
    number = 0
    while True:
        number += 1
        try:
            seen: Look | Failure = await look(desk)
        except Failure as failure:
            if failure.exit_code != WRONG_SURROUNDINGS or number == 1:
                raise
            seen = failure
        yield seen
        if number == count:
            return
        await asyncio.sleep(interval)


async def _as_json(looks: AsyncIterator[Look | Failure]) -> None:
    async for seen in looks:
        if isinstance(seen, Failure):
            click.echo(seen.message, err=True)
        else:
            print_line(seen.document())


async def _lines(terminal: "Terminal", looks: AsyncIterator[Look | Failure]) -> None:
    before: Look | None = None
    async for seen in looks:
        if isinstance(seen, Failure):
            click.echo(seen.message, err=True)
            continue
        click.echo(line(seen, terminal.zone))
        for changed in changes(before, seen, terminal.zone):
            click.echo(f"  {changed}")
        before = seen


async def _live(terminal: "Terminal", looks: AsyncIterator[Look | Failure]) -> None:
    from rich.live import Live

    from relay.cli.operators.screen import screen

    newest: Look | None = None
    with _ended_by_a_key(), Live(auto_refresh=False, screen=True) as live:
        async for seen in looks:
            newest, problem = (newest, seen.message) if isinstance(seen, Failure) else (seen, None)
            live.update(screen(newest, problem, terminal.zone), refresh=True)


@contextmanager
def _ended_by_a_key() -> Iterator[None]:
    """Leave the block when somebody presses a key of `ENDING`, also in the middle of a look. Keys are not shown."""
    import termios
    import tty

    task = asyncio.current_task()
    if task is None or not sys.stdin.isatty():
        yield
        return
    descriptor, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)
    ended = False

    def pressed() -> None:
        nonlocal ended
        if not ended and ENDING & set(os.read(descriptor, 64)):
            ended = True
            task.cancel()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    except asyncio.CancelledError:
        if not ended:
            raise
        task.uncancel()
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
