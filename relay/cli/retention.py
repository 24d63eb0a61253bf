"""``relay retention``: for how long ratings are kept, and erasing by hand what is old enough."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from relay.cli.agents import account, as_json
from relay.cli.running import Session, opened, print_json, run
from relay.cli.tables import print_table
from relay.clock import rfc3339

if TYPE_CHECKING:
    from relay.config import Config
    from relay.retention.model import Erased


@click.group()
def retention() -> None:
    """Look at how long ratings are kept, and erase now what is old enough.

    A worker does that by itself every `[retention] sweep_seconds`. Erased are rating, comment and bytes of final
    submissions; their keys stay. `docs/running.md` tells what else.
    """


@retention.command("show")
@as_json
@click.pass_obj
def show_policies(session: Session, *, as_json: bool) -> None:
    """Show each tenant's policy, and since when something is kept of it."""
    config = session.load()
    found = run(policies(config))
    if as_json:
        print_json(found)
        return
    print_table(
        ("tenant", "kept", "oldest"),
        [(each["tenant"] or "every other", kept(each["days"]), each["oldest"] or "") for each in found],
    )


def kept(days: int | None) -> str:
    return "for ever" if days is None else f"{days} days"


async def policies(config: "Config") -> list[dict[str, Any]]:
    """The tenants of the configuration and of the database in order, and last what holds for every other."""
    from relay.retention import sweeping
    from relay.retention.configured import policy
    from relay.storage import schema

    stated = policy(config.retention)
    async with opened(config) as db:
        await schema.require_current(db)
        found = []
        for tenant in sorted({*stated.tenants, *await sweeping.tenants(db)}):
            oldest = await sweeping.oldest(db, tenant)
            moment = None if oldest is None else rfc3339(oldest)
            found.append({"tenant": tenant, "days": stated.days_for(tenant), "oldest": moment})
    return [*found, {"tenant": None, "days": stated.days or None, "oldest": None}]


@retention.command()
@click.option("--dry-run", is_flag=True, help="Count what would be erased, and change nothing.")
@click.option("--by", default=None, metavar="NAME", help="Who does it. Left out: this account's name.")
@as_json
@click.pass_obj
def sweep(session: Session, /, *, dry_run: bool, by: str | None, as_json: bool) -> None:
    """Erase what is older than its tenant's policy allows.

    It may be stopped and run again at any time, beside running gateways and workers. What still waits to be delivered
    is left. The audit log tells of each tenant of whom something was erased.
    """
    erased = run(carry_out(session.load(), dry_run=dry_run, by=f"cli:{by or account()}"))
    total = sum(sum(agents.values()) for agents in erased.values())
    if as_json:
        print_json({"dryRun": dry_run, "erased": total, "tenants": erased})
        return
    rows = [(tenant, agent, count) for tenant, agents in erased.items() for agent, count in agents.items()]
    if rows:
        print_table(("tenant", "agent", "submissions"), rows)
    click.echo(f"submissions {'that would be ' if dry_run else ''}erased: {total}")


async def carry_out(config: "Config", *, dry_run: bool, by: str) -> "Erased":
    from relay.retention.configured import policy
    from relay.retention.sweeping import Sweep
    from relay.storage import schema

    async with opened(config) as db:
        await schema.require_current(db)
        process = Sweep(db, policy(config.retention), by=by)
        due = await process.look()
        if dry_run:
            return due
        with progress(sum(sum(agents.values()) for agents in due.values())) as advance:
            return await process.run(advance)


@contextmanager
def progress(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where somebody is watching."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("submissions", total=total)
        yield lambda done: bar.advance(task, done)
