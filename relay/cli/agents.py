"""``relay agents``: what operators of the deployment decide about specialists, from the machine itself."""

import json
import os
import pwd
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from registry.model import Agent, AgentId, Version
from relay.cli.running import FAILED, Failure, Session, opened, print_json, run
from relay.clock import rfc3339

if TYPE_CHECKING:
    from relay.operators.agents import Agents, Outcome

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
tenant_option = click.option("--tenant", required=True, help="Whose hold: the tenant as its tokens name it.")


def decision(command: Command) -> Command:
    """The options of everything that goes into the audit log."""
    why = click.option("--why", required=True, help="The reason, for the audit log.")
    by = click.option("--by", default=None, metavar="NAME", help="Who decides. Left out: this account's name.")
    return why(by(as_json(command)))


@click.group()
def agents() -> None:
    """Look at specialists and decide about them.

    Agents are declared in the configuration. A change of an agent's origin or protocol takes effect only when it is
    approved here; what waits for the agent is held until then. Every decision goes into the audit log.
    """


@agents.command("list")
@as_json
@click.pass_obj
def list_agents(session: Session, *, as_json: bool) -> None:
    """List all agents: what is approved, and for which tenants they are held."""

    async def look(known: "Agents") -> list[dict[str, Any]]:
        return [shown(agent) for agent in (await known.snapshot()).values()]

    found = with_agents(session, look)
    if as_json:
        print_json(found)
        return
    print_table(
        ("agent", "name", "approved", "newest", "origin", "protocol", "held for"),
        [
            (
                each["agent"],
                each["name"],
                each["approvedVersion"] or "no",
                each["newestVersion"],
                each["origin"] or "",
                each["protocol"] or "none: gets nothing",
                ", ".join(each["heldFor"]),
            )
            for each in found
        ],
    )


@agents.command()
@click.argument("agent")
@as_json
@click.pass_obj
def show(session: Session, /, agent: str, *, as_json: bool) -> None:
    """Show every version of AGENT's registration, and who decided about it."""

    async def look(known: "Agents") -> list[dict[str, Any]]:
        return [dict(row) for row in await known.history(AgentId(agent))]

    versions = with_agents(session, look)
    if not versions:
        raise Failure(f"there is no agent {agent}", FAILED)
    if as_json:
        print_json([version_shown(row) for row in versions])
        return
    columns = ("version", "state", "origin", "protocol", "lineage", "proposed_by", "approved_by", "approved_why")
    rows = [tuple("" if row[column] is None else row[column] for column in columns) for row in versions]
    print_table(tuple(column.replace("_", " ") for column in columns), rows)


@agents.command()
@click.argument("agent")
@click.argument("version", type=click.IntRange(min=1))
@decision
@click.pass_obj
def approve(session: Session, /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """Put VERSION of AGENT's registration in force.

    What waits for an earlier origin or protocol stays held; `same-specialist` says that it may go to this one.
    """
    decide(session, said, lambda known, by, why: known.approve(AgentId(agent), Version(version), by, why))


@agents.command()
@click.argument("agent")
@decision
@click.pass_obj
def revoke(session: Session, /, agent: str, **said: Any) -> None:  # noqa: ANN401
    """Send nothing to AGENT any more. What waits for it is held; none of it is lost."""
    decide(session, said, lambda known, by, why: known.revoke(AgentId(agent), by, why))


@agents.command()
@click.argument("agent")
@tenant_option
@decision
@click.pass_obj
def hold(session: Session, /, agent: str, tenant: str, **said: Any) -> None:  # noqa: ANN401
    """Start no attempt to AGENT for one tenant until `resume`. An attempt under way finishes."""
    decide(session, said, lambda known, by, why: known.hold(tenant, AgentId(agent), by, why))


@agents.command()
@click.argument("agent")
@tenant_option
@decision
@click.pass_obj
def resume(session: Session, /, agent: str, tenant: str, **said: Any) -> None:  # noqa: ANN401
    """End a tenant's hold on AGENT: what waited goes out."""
    decide(session, said, lambda known, by, why: known.resume(tenant, AgentId(agent), by, why))


@agents.command("same-specialist")
@click.argument("agent")
@click.argument("version", type=click.IntRange(min=1))
@decision
@click.pass_obj
def same_specialist(session: Session, /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401
    """Say that AGENT's approved registration is the same specialist as VERSION of it, which moved.

    What is held because it was earned at that version's origin then goes to the approved one.
    """
    decide(session, said, lambda known, by, why: known.declare_same(AgentId(agent), Version(version), by, why))


def decide(session: Session, said: Mapping[str, Any], act: "Callable[[Agents, str, str], Awaitable[Outcome]]") -> None:
    """Carry out one audited decision, and print how the agent stands after it."""
    by = f"cli:{said['by'] or account()}"

    async def carry_out(known: "Agents") -> dict[str, Any]:
        outcome = await act(known, by, said["why"])
        return {**shown(outcome.agent), "parked": outcome.parked, "freed": outcome.freed}

    after = with_agents(session, carry_out)
    if said["as_json"]:
        print_json(after)
        return
    approved = f"version {after['approvedVersion']} is approved" if after["approvedVersion"] else "nothing is approved"
    held = f", held for {', '.join(after['heldFor'])}" if after["heldFor"] else ""
    click.echo(f"{after['agent']}: {approved}{held}; deliveries parked: {after['parked']}, freed: {after['freed']}")


def account() -> str:
    """Who runs this command, by the user database: the environment could say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a number without a name
        return str(os.getuid())


def with_agents(session: Session, work: "Callable[[Agents], Awaitable[T]]") -> T:
    from registry.registrations import NotApplicableError, UnknownAgentError
    from relay.operators.agents import Agents
    from relay.storage import schema

    config = session.load()

    async def do() -> T:
        async with opened(config) as db:
            await schema.require_current(db)
            return await work(Agents(db))

    try:
        return run(do())
    except (UnknownAgentError, NotApplicableError) as refused:
        raise Failure(str(refused), FAILED) from None


def shown(agent: Agent) -> dict[str, Any]:
    approved = agent.approved
    return {
        "agent": agent.id,
        "name": agent.name,
        "approvedVersion": approved and approved.version,
        "newestVersion": agent.newest,
        "origin": approved and approved.origin,
        "protocol": approved and approved.protocol,
        "heldFor": sorted(agent.held_by),
    }


def version_shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A stored version with its times as RFC 3339 and the names that the rest of the interface uses."""
    named = {"".join([head, *map(str.title, rest)]): row[key] for key in row for head, *rest in [key.split("_")]}
    times = {key: rfc3339(at) for key, at in named.items() if key.endswith("At") and at is not None}
    return {**named, **times, "credentials": json.loads(row["credentials"])}


def print_table(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console().print(table)
