"""Lists: all of their commands fetch pages, and print a table for people or JSON Lines for programs."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from relay.cli.operators.options import most_of
from relay.cli.operators.printing import print_line, print_rows

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk
    from relay.cli.operators.terminal import Terminal

Row = Callable[[dict[str, Any]], tuple[object, ...]]


def show(
    terminal: "Terminal",
    segments: tuple[str, ...],
    said: Mapping[str, Any],
    query: Mapping[str, str | None],
    columns: tuple[str, ...],
    row: Row,
) -> None:
    """Fetch and print. JSON Lines come out as pages come in; beside a table, stderr says how many there are."""

    async def fetch(desk: "Desk") -> tuple[list[dict[str, Any]], int]:
        kept: list[dict[str, Any]] = []
        total = 0
        async for page in desk.pages(*segments, query=query, most=most_of(said)):
            total = page.total
            if not said["as_json"]:
                kept += page.items
                continue
            for item in page.items:
                print_line(item)
        return kept, total

    items, total = terminal.ask(fetch)
    if said["as_json"]:
        return
    print_rows(columns, [row(item) for item in items])
    more = "" if len(items) >= total else "; --all shows all of them"
    click.echo(f"{len(items):,} of {total:,}{more}", err=True)
