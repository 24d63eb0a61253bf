"""``relay operators``: all that operators' tokens may do over the API of a running relay, from a terminal."""

from pathlib import Path
from typing import Any

import click

from relay.cli.operators.agents import agents
from relay.cli.operators.exits import EXIT_CODES
from relay.cli.operators.export import export
from relay.cli.operators.jobs import jobs
from relay.cli.operators.looking import analytics, audit, tasks
from relay.cli.operators.printing import zone_of
from relay.cli.operators.signing_in import login, logout
from relay.cli.operators.submissions import submissions
from relay.cli.operators.terminal import Terminal
from relay.cli.operators.watch import watch
from relay.cli.running import Session

_FILE = click.Path(path_type=Path)  # whether it is there matters only where it is used


@click.group(epilog=EXIT_CODES)
@click.option(
    "--relay",
    envvar="RELAY_URL",
    show_envvar=True,
    metavar="URL",
    help="Which relay. Left out: [server] public_url of the configuration, where one is named.",
)
@click.option(
    "--token-file",
    envvar="RELAY_TOKEN_FILE",
    show_envvar=True,
    type=_FILE,
    help="A file that holds an access token of yours, instead of signing in.",
)
@click.option(
    "--ca-file",
    envvar="RELAY_CA_FILE",
    show_envvar=True,
    type=_FILE,
    help="Authorities (PEM) to trust beside the machine's.",
)
@click.option(
    "--zone",
    envvar="RELAY_ZONE",
    show_envvar=True,
    default="UTC",
    show_default=True,
    help="In whose time to show times, and whose days to count: an IANA name, such as Europe/Berlin.",
)
@click.option(
    "--state-dir",
    "state",
    envvar="XDG_STATE_HOME",
    show_envvar=True,
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("~/.local/state"),
    show_default=True,
    help="Where sign-ins are kept.",
)
@click.option("--direct", is_flag=True, help="In an emergency: use the configured database, without a running relay.")
@click.option("--reason", help="With --direct: why. It goes into the audit log, under this account's name.")
@click.option("--tenant", help="With --direct: whose submissions. Needed where tokens name tenants.")
@click.pass_context
def operators(context: click.Context, /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """Operate a running relay: its submissions, agents, jobs, figures and audit log.

    Over its API, as a person: sign in with `login`, or have a token in a file. With --json every command prints what
    the API answers: one document, or JSON Lines for lists.
    """
    session: Session = context.obj
    if not said["direct"] and (said["reason"] or said["tenant"]):
        raise click.UsageError("--reason and --tenant go with --direct")
    zone_of(said["zone"])  # the earlier it is told the better
    context.obj = Terminal(
        session=session,
        relay=said["relay"],
        token_file=said["token_file"],
        ca_file=said["ca_file"],
        state=said["state"].expanduser(),
        zone_name=said["zone"],
        direct=said["direct"],
        reason=said["reason"],
        tenant=said["tenant"],
    )


for command in (login, logout, submissions, jobs, agents, tasks, audit, analytics, export, watch):
    operators.add_command(command)
