"""``relay operators export``"""

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from relay.cli.operators.exits import INTERRUPTED
from relay.cli.operators.options import filter_of, filtered
from relay.cli.running import WRONG_SURROUNDINGS, Failure

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk
    from relay.cli.operators.terminal import Terminal

STANDARD_OUTPUT: Final = "-"


@click.command()
@click.option("--format", "format_", type=click.Choice(("csv", "jsonl", "parquet")), required=True, help="As what.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False),
    help="The file. It is there when it is complete, not before; one that is there already is replaced then. -: print.",
)
@filtered
@click.pass_obj
def export(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """Take submissions away as a file of any size, newest first.

    In CSV, what a spreadsheet would run as a formula has an apostrophe before it; JSON Lines and Parquet have every
    text as it is. The file holds what people wrote: only you can read it.
    """
    query = {**filter_of(said), "format": said["format_"]}

    async def fetch(desk: "Desk") -> None:
        with _target(said["output"]) as file, _progress(said["output"]) as moved:
            async with aclosing(desk.stream("api", "operator", "export", query=query)) as parts:
                async for part in parts:
                    file.write(part)
                    moved(len(part))

    try:
        terminal.ask(fetch)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise  # whoever reads has had enough
        raise Failure(f"{said['output']} cannot be written: {error.strerror}", WRONG_SURROUNDINGS) from None
    except KeyboardInterrupt:
        click.echo("interrupted: nothing was kept", err=True)
        click.get_current_context().exit(INTERRUPTED)
    if said["output"] != STANDARD_OUTPUT:
        click.echo(f"{said['output']}: {Path(said['output']).stat().st_size:,} bytes", err=True)


@contextmanager
def _target(output: str) -> Iterator[IO[bytes]]:
    """Where the bytes go. A file takes its name when it is whole, and is gone where it never was."""
    if output == STANDARD_OUTPUT:
        out = sys.stdout.buffer
        yield out
        out.flush()
        return
    path = Path(output)
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    finally:
        with suppress(FileNotFoundError):
            Path(partial).unlink()


@contextmanager
def _progress(output: str) -> Iterator[Callable[[int], None]]:
    """Bytes so far, on stderr, where somebody is watching; how many there will be nobody knows."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(output, total=None)
        yield lambda size: bar.advance(task, size)
