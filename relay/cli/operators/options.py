"""The options that many of these commands share."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, get_args

import click

from registry.protocols.contract import Rating
from relay.delivery.model import Evidence, State

Command = TypeVar("Command", bound=Callable[..., None])

SHOWN: Final = 50
"""How many items a list shows where nobody says."""

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document, as the API has it.")
lines_option = click.option("--json", "as_json", is_flag=True, help="Print JSON Lines: each item as the API has it.")
why_option = click.option("--why", help="The reason, for the audit log, which keeps it: do not quote people in it.")

FILTERS: Final = ("state", "agent", "rating", "owner", "client", "since", "until", "q", "evidence")
"""The names of the options that choose submissions, which are the API's."""


def paged(command: Command) -> Command:
    """How much of a list."""
    limit = click.option(
        "--limit", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="At most so many."
    )
    everything = click.option("--all", "everything", is_flag=True, help="All of them, page by page.")
    return limit(everything(command))


def spanning(command: Command) -> Command:
    """A span of time."""
    since = click.option("--since", metavar="TIME", help="From this time on, such as 2026-03-01T09:30:00Z.")
    until = click.option("--until", metavar="TIME", help="Before this time. A time has a zone: Z, or +01:00.")
    return since(until(command))


def filtered(command: Command) -> Command:
    """Which submissions: those that all of the options mean."""
    options = (
        click.option("--state", type=click.Choice(get_args(State)), help="In this state."),
        click.option("--agent", help="Of this agent's tasks."),
        click.option("--rating", type=click.Choice(get_args(Rating)), help="Thumbs up, or down."),
        click.option("--owner", metavar="KEY", help="Of this owner, by the key that lists show."),
        click.option("--client", help="That came through this client."),
        spanning,
        click.option("--search", "q", metavar="TEXT", help="With this text in the comment, literally, in any case."),
        click.option("--evidence", type=click.Choice(get_args(Evidence)), help="Of which this was found out."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The filter that was said, by the API's names."""
    return {name: said[name] for name in FILTERS if said[name] is not None}


def most_of(said: Mapping[str, Any]) -> int | None:
    """How many items; None: all."""
    return None if said["everything"] else int(said["limit"])
