"""``relay agents``: what operators of the deployment decide about specialists, from the machine itself."""

import os
import pwd
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from registry.model import AgentId, Version
from relay.cli.agents_shown import decided, listed, shown, told, version_shown
from relay.cli.running import FAILED, Failure, Session, opened, print_json, run
from relay.cli.tables import print_table
from relay.clock import rfc3339

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from registry.registrations import Declaration
    from relay.config import Config
    from relay.operators.agents import Agents, Outcome
    from relay.operators.agents.views import Views
    from relay.storage.engine import Database

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def held_option(command: Command) -> Command:
    """Whose hold: one tenant's own, or everybody's, which is of a version."""

    @wraps(command)
    def checked(*arguments: Any, **said: Any) -> None:  # noqa: ANN401 - click's keywords
        if (said["tenant"] is None) == (said["version"] is None):
            raise click.UsageError("say --tenant, for one tenant's hold, or --version, for everybody's")
        command(*arguments, **said)

    tenant = click.option("--tenant", help="For one tenant, as its tokens name it.")
    version = click.option("--version", type=click.IntRange(min=1), help="For everybody: the approved version.")
    return tenant(version(cast(Command, checked)))


def decision(command: Command) -> Command:
    """The options of everything that goes into the audit log."""
    why = click.option("--why", required=True, help="The reason, for the audit log.")
    by = click.option("--by", default=None, metavar="NAME", help="Who decides. Left out: this account's name.")
    return why(by(as_json(command)))


@click.group()
def agents() -> None:
    """Look at specialists and decide about them.

    Agents are declared in the configuration, or proposed and approved here. A change of an agent's origin or protocol
    takes effect only when it is approved; what waits for the agent is held until then. What is decided here stays,
    whatever the configuration says; `list` shows where the two disagree. Every decision goes into the audit log.
    """


@agents.command("list")
@as_json
@click.pass_obj
def list_agents(session: Session, *, as_json: bool) -> None:
    """List all agents: what is in force, who holds them, and how they fare.

    The backlog is what waits for the agent, of all tenants. "file says" names what the configuration says otherwise.
    """
    from relay.operators.agents.views import Wanted

    views = with_views(session, lambda known: known.all(Wanted()))
    if as_json:
        print_json([listed(view) for view in views])
        return
    print_table(
        (
            *("agent", "state", "version", "newest", "source", "origin", "protocol"),
            *("breaker", "backlog", "oldest", "held for", "file says"),
        ),
        [
            (
                view.agent.id,
                view.standing,
                view.agent.approved.version if view.agent.approved else "none",
                view.agent.newest,
                view.agent.approved.source if view.agent.approved else "",
                view.agent.approved.origin if view.agent.approved else "",
                (view.agent.approved.protocol or "none: gets nothing") if view.agent.approved else "",
                view.health.breaker.state,
                view.health.backlog.waiting,
                rfc3339(view.health.backlog.oldest) if view.health.backlog.oldest is not None else "",
                ", ".join(hold["tenant"] for hold in view.holds),
                told(view.disagreement),
            )
            for view in views
        ],
    )


@agents.command()
@click.argument("agent")
@as_json
@click.pass_obj
def show(session: Session, /, agent: str, *, as_json: bool) -> None:
    """Show AGENT: how it fares, every version of its registration, and who decided about it."""
    view = with_views(session, lambda known: known.one(AgentId(agent)))
    if view is None:
        raise Failure(f"there is no agent {agent}", FAILED)
    if as_json:
        print_json({**listed(view), "versions": [version_shown(row) for row in view.versions]})
        return
    click.echo(
        f"{agent} is {view.standing}; breaker {view.health.breaker.state}; waiting: {view.health.backlog.waiting}"
    )
    for hold in view.holds:
        click.echo(f"held for {hold['tenant']} since {rfc3339(hold['held_at'])} by {hold['held_by']}: {hold['why']}")
    if view.disagreement:
        click.echo(f"the configuration disagrees: {told(view.disagreement)}")
    columns = ("version", "state", "source", "origin", "protocol", "lineage")
    decisions = ("proposed", "approved", "held", "ended")
    print_table(
        (*columns, "limits", "owner contact", *decisions),
        [
            (
                *(row[column] or "" for column in columns),
                row["limits"] or "",
                row["owner_contact"] or "",
                *(decided(row, {"ended": "revoked"}.get(name, name)) for name in decisions),
            )
            for row in view.versions
        ],
    )


@agents.command()
@click.argument("agent")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with one [[agents]] entry, as in the configuration: all of the new version.",
)
@click.option("--name", help="What people read.")
@click.option("--origin", help="Where it is: https and a DNS name.")
@click.option("--protocol", help="How it takes feedback.")
@click.option("--no-protocol", is_flag=True, help="It does not take feedback any more.")
@click.option("--in-flight", type=click.IntRange(min=1), help="The most attempts under way at a time, in one process.")
@click.option("--owner-contact", help="Whom to ask about it.")
@decision
@click.pass_obj
def propose(session: Session, /, agent: str, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """Propose a new version of AGENT's registration, or a new agent.

    From a file, which holds all of it, or by the options, which change the version that was decided for. While another
    origin or protocol is proposed nothing is sent to the agent; any other change leaves what is in force in force.
    """
    changes = changes_of(said)
    if (said["file"] is None) == (not changes):
        raise click.UsageError("say what changes, by --file or by the other options")
    config = session.load()

    from relay.config.proposals import read_proposal

    async def act(known: "Agents", by: str, why: str) -> "Outcome":
        if said["file"] is not None:
            declaration = read_proposal(config, said["file"])
        else:
            declaration = changed(config, AgentId(agent), await known.history(AgentId(agent)), changes)
        if declaration.agent != agent:
            raise Failure(f"{said['file']} is about {declaration.agent}, not {agent}", FAILED)
        return await known.propose(declaration, by, why)

    decide(session, said, act, counts_eyes=True)


def changes_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """What the options change, by the configuration's keys."""
    if said["protocol"] and said["no_protocol"]:
        raise click.UsageError("--protocol and --no-protocol exclude each other")
    given = {key: said[key] for key in ("name", "origin", "protocol", "owner_contact") if said[key] is not None}
    if said["no_protocol"]:
        given["protocol"] = None
    return {**given, "limits": {"in_flight": said["in_flight"]}} if said["in_flight"] else given


def changed(
    config: "Config", agent: AgentId, versions: "Sequence[RowMapping]", changes: Mapping[str, Any]
) -> "Declaration":
    """The version that was decided for, else the newest, with these changes, checked as the configuration is."""
    from registry.registrations import declared
    from relay.config.problems import render
    from relay.config.proposals import problems_of, written_again
    from relay.operators.agents.configured import decided_for

    if not versions:
        raise Failure(f"there is no agent {agent}: propose a new one with --file", FAILED)
    written = written_again(declared(decided_for(versions) or versions[-1]), changes, config.path.parent)
    if problems := problems_of(config, written):
        raise Failure("\n".join(map(render, problems)), FAILED)
    return written.declaration()


@agents.command()
@click.argument("agent")
@click.argument("version", type=click.IntRange(min=1))
@decision
@click.pass_obj
def approve(session: Session, /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """Put VERSION of AGENT's registration in force.

    What waits for an earlier origin or protocol stays held; `same-specialist` says that it may go to this one.
    """
    decide(
        session,
        said,
        lambda known, by, why: known.approve(AgentId(agent), Version(version), by, why),
        counts_eyes=True,
    )


@agents.command()
@click.argument("agent")
@click.argument("version", type=click.IntRange(min=1))
@decision
@click.pass_obj
def withdraw(session: Session, /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401
    """Take the proposed VERSION of AGENT's registration back, or turn it down.

    If it was another origin or protocol, what was in force before is so again.
    """
    decide(session, said, lambda known, by, why: known.withdraw(AgentId(agent), Version(version), by, why))


@agents.command()
@click.argument("agent")
@click.option("--version", type=click.IntRange(min=1), help="That version alone. Left out: all that is not over.")
@decision
@click.pass_obj
def revoke(session: Session, /, agent: str, version: int | None, **said: Any) -> None:  # noqa: ANN401
    """Send nothing to AGENT any more. What waits for it is held; none of it is lost."""
    only = None if version is None else Version(version)
    decide(session, said, lambda known, by, why: known.revoke(AgentId(agent), by, why, only))


@agents.command()
@click.argument("agent")
@held_option
@decision
@click.pass_obj
def hold(session: Session, /, agent: str, **said: Any) -> None:  # noqa: ANN401
    """Start no attempt to AGENT until `resume`, for one tenant or for everybody. An attempt under way finishes."""
    tenant, version = said["tenant"], said["version"]
    if tenant is not None:
        decide(session, said, lambda known, by, why: known.hold(tenant, AgentId(agent), by, why))
    else:
        decide(session, said, lambda known, by, why: known.hold_version(AgentId(agent), Version(version), by, why))


@agents.command()
@click.argument("agent")
@held_option
@decision
@click.pass_obj
def resume(session: Session, /, agent: str, **said: Any) -> None:  # noqa: ANN401
    """End a hold on AGENT, of a tenant or of a version: what waited goes out."""
    tenant, version = said["tenant"], said["version"]
    if tenant is not None:
        decide(session, said, lambda known, by, why: known.resume(tenant, AgentId(agent), by, why))
    else:
        decide(session, said, lambda known, by, why: known.resume_version(AgentId(agent), Version(version), by, why))


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


def decide(
    session: Session,
    said: Mapping[str, Any],
    act: "Callable[[Agents, str, str], Awaitable[Outcome]]",
    *,
    counts_eyes: bool = False,
) -> None:
    """Carry out one audited decision, and print how the agent stands after it.

    ``counts_eyes``: where four eyes are asked for, the account that runs the command stands for whoever decides.
    """
    if counts_eyes and said["by"] is not None and session.load().registry.four_eyes:
        raise Failure("with [registry] four_eyes it is the account that counts: leave --by out", FAILED)
    by = f"cli:{said['by'] or account()}"

    async def carry_out(known: "Agents") -> dict[str, Any]:
        outcome = await act(known, by, said["why"])
        moved = {"parked": outcome.parked, "freed": outcome.freed, "complete": outcome.complete}
        return {**shown(outcome.agent), **moved}

    after = with_agents(session, carry_out)
    if said["as_json"]:
        print_json(after)
        return
    approved = f"version {after['approvedVersion']} is {after['state']}" if after["state"] else "nothing is approved"
    held = f", held for {', '.join(after['heldFor'])}" if after["heldFor"] else ""
    rest = "" if after["complete"] else "; more are being moved by a worker, or by a later decision"
    click.echo(
        f"{after['agent']}: {approved}{held}; deliveries parked: {after['parked']}, freed: {after['freed']}{rest}"
    )


def account() -> str:
    """Who runs this command, by the user database: the environment could say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run under a number without a name
        return str(os.getuid())


def with_agents(session: Session, work: "Callable[[Agents], Awaitable[T]]") -> T:
    from registry.registrations import NotApplicableError, UnknownAgentError
    from relay.operators.agents import Agents

    config = session.load()
    try:
        return with_database(config, lambda db: work(Agents(db, four_eyes=config.registry.four_eyes)))
    except (UnknownAgentError, NotApplicableError) as refused:
        raise Failure(str(refused), FAILED) from None


def with_views(session: Session, look: "Callable[[Views], Awaitable[T]]") -> T:
    from relay.operators.agents.views import Views

    config = session.load()
    return with_database(config, lambda db: look(Views(db, config.agents)))


def with_database(config: "Config", work: "Callable[[Database], Awaitable[T]]") -> T:
    from relay.storage import schema

    async def do() -> T:
        async with opened(config) as db:
            await schema.require_current(db)
            return await work(db)

    return run(do())
