"""``relay operators agents``"""

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from relay.cli.operators import lists
from relay.cli.operators.options import json_option, lines_option, paged, why_option
from relay.cli.operators.printing import print_document, print_facts, print_rows, when
from relay.cli.operators.proposing import body_of
from relay.cli.running import FAILED, Failure

if TYPE_CHECKING:
    from relay.cli.operators.terminal import Terminal

Command = TypeVar("Command", bound=Callable[..., None])

WAITING: Final = {"pending": "pending", "sending": "sending", "held": "held", "needsOwner": "needs owner"}
AGENTS: Final = ("api", "operator", "agents")
COLUMNS: Final = (
    *("agent", "state", "version", "newest", "origin", "protocol", "breaker"),
    *("pending", "sending", "held", "needs owner", "oldest since", "your hold", "file says"),
)


@click.group()
def agents() -> None:
    """Look at specialists, and decide about them.

    Holds and backlogs are those of your tenant. Registrations belong to the whole deployment, and what is decided about
    them takes registry:admin.
    """


@agents.command("list")
@click.option("--state", type=click.Choice(("approved", "held", "proposed", "revoked")), help="That stand so.")
@click.option("--breaker", type=click.Choice(("closed", "open", "half_open")), help="With such a breaker.")
@click.option("--protocol", help="That take feedback by this protocol.")
@paged
@lines_option
@click.pass_obj
def list_agents(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """List agents: how they stand, how they fare, and what waits for them."""
    query = {name: said[name] for name in ("state", "breaker", "protocol")}
    lists.show(terminal, AGENTS, said, query, COLUMNS, partial(_row, terminal.zone))


@agents.command()
@click.argument("agent")
@json_option
@click.pass_obj
def show(terminal: "Terminal", /, agent: str, *, as_json: bool) -> None:
    """Show AGENT: how it fares, and every version of its registration with who decided about it."""
    found = terminal.ask(lambda desk: desk.get(*AGENTS, agent))
    print_document(found) if as_json else _tell(found, terminal.zone)


@agents.command()
@click.argument("agent")
@click.option(
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file with one [[agents]] entry, as in the configuration. What it leaves out stays as it is.",
)
@click.option("--name", help="What people read.")
@click.option("--origin", help="Where it is: https and a DNS name.")
@click.option("--protocol", help="How it takes feedback.")
@click.option("--no-protocol", is_flag=True, help="It does not take feedback any more.")
@click.option("--in-flight", type=click.IntRange(min=1), help="The most attempts under way at a time, in one process.")
@click.option("--owner-contact", help="Whom to ask about it.")
@why_option
@json_option
@click.pass_obj
def propose(terminal: "Terminal", /, agent: str, **said: Any) -> None:  # noqa: ANN401
    """Propose a new version of AGENT's registration, or a new agent.

    While another origin or protocol is proposed nothing is sent to the agent; any other change leaves what is in force
    in force until it is approved.
    """
    changes = body_of(agent, said)
    _refuse_where_eyes_count(terminal)
    _decide(terminal, (agent, "proposals"), said, changes)


@agents.command()
@click.argument("agent")
@click.argument("version", type=click.IntRange(min=1))
@why_option
@json_option
@click.pass_obj
def approve(terminal: "Terminal", /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401
    """Put VERSION of AGENT's registration in force."""
    _refuse_where_eyes_count(terminal)
    _decide(terminal, (agent, "versions", str(version), "approve"), said)


def _about_version(name: str, text: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("agent")
    @click.argument("version", type=click.IntRange(min=1))
    @why_option
    @json_option
    @click.pass_obj
    def command(terminal: "Terminal", /, agent: str, version: int, **said: Any) -> None:  # noqa: ANN401
        _decide(terminal, (agent, "versions", str(version), name), said)

    return command


def _hold_or_resume(name: str, text: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("agent")
    @click.option("--version", type=click.IntRange(min=1), help="For everybody: this version. Takes registry:admin.")
    @why_option
    @json_option
    @click.pass_obj
    def command(terminal: "Terminal", /, agent: str, version: int | None, **said: Any) -> None:  # noqa: ANN401
        whose = () if version is None else ("versions", str(version))
        _decide(terminal, (agent, *whose, name), said)

    return command


agents.add_command(
    _about_version("withdraw", "Take the proposed VERSION of AGENT's registration back, or turn it down.")
)
agents.add_command(
    _about_version("revoke", "Take VERSION of AGENT's registration out. What waits is held; none of it is lost.")
)
agents.add_command(
    _about_version(
        "same-specialist",
        "Say that what is in force is the same specialist as VERSION of AGENT, which moved.\n\n"
        "What is held because it was earned at that version's origin then goes to the one in force.",
    )
)
agents.add_command(
    _hold_or_resume("hold", "Start no attempt to AGENT for your tenant until `resume`. An attempt under way finishes.")
)
agents.add_command(_hold_or_resume("resume", "End a hold on AGENT: what waited goes out."))


def _refuse_where_eyes_count(terminal: "Terminal") -> None:
    """Directly, one person would have a second name beside the one that `relay agents` gives them."""
    if terminal.direct and terminal.session.load().registry.four_eyes:
        raise Failure("with [registry] four_eyes this goes by `relay agents`, where the account counts", FAILED)


def _decide(
    terminal: "Terminal", segments: tuple[str, ...], said: Mapping[str, Any], changes: Mapping[str, Any] | None = None
) -> None:
    body = {**(changes or {}), "why": terminal.why(said["why"])}
    done = terminal.ask(lambda desk: desk.post(*AGENTS, *segments, body=body))
    if said["as_json"]:
        print_document(done)
        return
    agent = done["agent"]
    held = f", held for your tenant by {agent['hold']['by']}" if agent["hold"] else ""
    in_force = f"version {agent['inForce']['version']} is in force" if agent["inForce"] else "nothing is in force"
    newest = (
        "" if agent["inForce"] and agent["inForce"]["version"] == agent["newest"] else f", newest {agent['newest']}"
    )
    rest = "" if done["complete"] else "; more are being moved in the background"
    click.echo(
        f"{agent['agent']}: {agent['state']}{held}; {in_force}{newest}; "
        f"deliveries parked: {done['parked']}, freed: {done['freed']}{rest}"
    )


def _row(zone: tzinfo, agent: dict[str, Any]) -> tuple[object, ...]:
    version, backlog, hold = agent["inForce"] or {}, agent["backlog"], agent["hold"]
    return (
        agent["agent"],
        agent["state"],
        version.get("version", "none"),
        agent["newest"],
        version.get("origin"),
        version.get("protocol") or "none",
        _breaker(agent["breaker"], zone),
        *(backlog[name] for name in WAITING),
        when(backlog["oldestSince"], zone),
        hold and f"{when(hold['at'], zone)}: {hold['why']}",
        _differs(agent["disagreement"]),
    )


def _breaker(breaker: dict[str, Any], zone: tzinfo) -> str:
    until = f" until {when(breaker['openUntil'], zone)}" if breaker["openUntil"] else ""
    paused = f", paused until {when(breaker['pausedUntil'], zone)}" if breaker["pausedUntil"] else ""
    return f"{breaker['state']}{until}{paused}"


def _differs(disagreement: dict[str, Any] | None) -> str:
    if disagreement is None:
        return ""
    return f"version {disagreement['version']} is {disagreement['state']}: another {', '.join(disagreement['differs'])}"


def _tell(agent: dict[str, Any], zone: tzinfo) -> None:
    backlog, hold, breaker = agent["backlog"], agent["hold"], agent["breaker"]
    waits = ", ".join(f"{name} {backlog[key]}" for key, name in WAITING.items())
    print_facts(
        {
            "agent": f"{agent['agent']} ({agent['name']})",
            "state": agent["state"],
            "your hold": hold and f"since {when(hold['at'], zone)} by {hold['by']}: {hold['why']}",
            "breaker": f"{_breaker(breaker, zone)}; {breaker['failures']} of {breaker['attempts']} failed",
            "waiting": waits,
            "oldest since": when(backlog["oldestSince"], zone),
            "last success": when(breaker["lastSuccessAt"], zone),
            "last failure": when(breaker["lastFailureAt"], zone),
            "file says": _differs(agent["disagreement"]),
        }
    )
    click.echo()
    decisions = ("proposed", "approved", "held", "ended")
    print_rows(
        ("version", "state", "source", "origin", "protocol", "credentials", "in flight", "contact", *decisions),
        [
            (
                *(version[name] for name in ("version", "state", "source", "origin", "protocol")),
                ", ".join(credential["mode"] for credential in version["credentials"]),
                version["limits"]["inFlight"],
                version["ownerContact"],
                *(_decision(version[name], zone) for name in decisions),
            )
            for version in agent["versions"]
        ],
    )


def _decision(decision: dict[str, Any] | None, zone: tzinfo) -> str:
    if decision is None:
        return ""
    why = f": {decision['why']}" if decision["why"] else ""
    return f"{when(decision['at'], zone)} {decision['by']}{why}"
