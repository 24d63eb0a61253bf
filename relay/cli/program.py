"""``relay`` and its commands."""

from pathlib import Path

import click

from relay.cli.agents import agents
from relay.cli.keys import keys
from relay.cli.operators import operators
from relay.cli.owners import owners
from relay.cli.retention import retention
from relay.cli.running import (
    FAILED,
    WRONG_SURROUNDINGS,
    Failure,
    Program,
    Session,
    opened,
    print_json,
    run,
    surroundings_to_blame,
)

EXIT_CODES = """\b
Exit codes:
  0  done
  1  the command failed, or was refused
  2  the command line or the configuration is wrong
  3  the surroundings are wrong: the database, a secret file, an address in use
"""


@click.group(cls=Program, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="RELAY_CONFIG",
    show_envvar=True,
    metavar="FILE",
    help="The configuration, in TOML. config.example.toml documents every key.",
)
@click.pass_context
def program(context: click.Context, config_file: Path | None) -> None:
    """Carry people's ratings of specialist AI agents to the very specialist whose run earned them, once.

    `serve` and `work` run the relay; `demo` shows it at work on this machine, without any configuration.
    """
    context.obj = Session(config_file)


@program.command()
@click.option("--worker/--no-worker", default=True, show_default=True, help="Deliver what waits in this process too.")
@click.pass_obj
def serve(session: Session, *, worker: bool) -> None:
    """Run the gateway, and a worker in it.

    Takes submissions, stores them, makes the first attempt, and answers. With --no-worker everything after the first
    attempt is left to `relay work`, which may run anywhere beside it on the same PostgreSQL database.

    SIGTERM and SIGINT end it: it stops listening, lets what is under way finish within
    [server] shutdown_grace_seconds, and gives back the rest.
    """
    config = session.load_for_serving()
    from relay import processes

    with surroundings_to_blame():
        code = run(processes.serve(config, worker=worker), serving=True)
    click.get_current_context().exit(code)


@program.command()
@click.pass_obj
def work(session: Session) -> None:
    """Run a worker that delivers what waits.

    Any number of workers and gateways may share one PostgreSQL database. SIGTERM and SIGINT end it as they end
    `serve`.
    """
    config = session.load_for_serving()
    from relay import processes

    with surroundings_to_blame():
        code = run(processes.work(config), serving=True)
    click.get_current_context().exit(code)


@program.command()
@click.option("--show", is_flag=True, help="Tell what would be done, and change nothing.")
@click.pass_obj
def migrate(session: Session, *, show: bool) -> None:
    """Bring the database up to this version.

    Applies the migrations that are missing, each in one transaction. Several processes may do so at once: they take
    turns.
    """
    from relay.storage import schema

    async def bring_up() -> schema.SchemaStatus:
        async with opened(config) as db:
            return await (schema.status(db) if show else schema.migrate(db))

    config = session.load()
    status = run(bring_up())
    click.echo(f"{'the database is at' if show else 'migrated to'}: {status.current or 'nothing (it is empty)'}")
    for revision in status.pending:
        click.echo(f"to be applied: {revision}")


@program.command("check-config")
@click.option("--online", is_flag=True, help="Look at the issuers, token endpoints and agents as well.")
@click.option("--json", "as_json", is_flag=True, help="With --online: print JSON.")
@click.pass_obj
def check_config(session: Session, *, online: bool, as_json: bool) -> None:
    """Tell what is wrong with the configuration.

    Everything that is wrong is told at once. Reads the file and the secrets that it names; starts nothing, and without
    --online connects to nothing.

    With --online it fetches the issuers' metadata and keys, has each token endpoint refuse a request without
    credentials, and asks each agent that takes feedback for a TLS connection: all as the relay would, under the
    [egress] rules. It ends with 1 if any of that would fail.
    """
    if as_json and not online:
        raise click.UsageError("--json goes with --online")
    config = session.load_for_serving()
    if online:
        from relay.cli import online as looking

        in_order = looking.check(config, as_json=as_json)
        if as_json or not in_order:
            click.get_current_context().exit(0 if in_order else FAILED)
    opted_in = sum(1 for agent in config.agents if agent.protocol is not None)
    click.echo(
        f"{session.config_file} is in order: {config.database_url().get_backend_name()}, "
        f"issuers: {len(config.identity.issuers)}, agents: {len(config.agents)}, of which take feedback: {opted_in}"
    )


@program.command()
def openapi() -> None:
    """Print the OpenAPI document.

    The same that the gateway serves at /openapi.json.
    """
    from relay.api import document

    print_json(document())


@program.command()
@click.option("--url", help="Where pages reach the relay, instead of [server] public_url.")
@click.pass_obj
def widget(session: Session, *, url: str | None) -> None:
    """Print the script element for pages that show the rating widget.

    It names this version's file and its hash: pages that hold it need a new one after an update of the relay.
    """
    from relay.web import load

    click.echo(load().element(url or session.load().server.public_url))


@program.command()
@click.option("--once", is_flag=True, help="End when the last rating is saved; otherwise stay up for a visitor.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON first: addresses, tokens, tasks.")
def demo(*, once: bool, as_json: bool) -> None:
    """Show the whole path on this machine.

    Starts an issuer, two specialists that speak TLS, a relay and its worker, and a Workbench for your browser. Needs
    no configuration, and leaves nothing behind. Rates a specialist and shows it saved; stops that specialist, rates
    again, starts it, and shows the worker saving what waited, under the same UUID.
    """
    try:
        from relay.demo import story
    except ModuleNotFoundError as error:
        if error.name != "trustme":
            raise
        raise Failure("the demo needs its extra: pip install 'feedback-relay[demo]'", WRONG_SURROUNDINGS) from None
    click.get_current_context().exit(story.main(once=once, json=as_json))


@program.command()
def version() -> None:
    """Print the version."""
    from relay import __version__

    click.echo(__version__)


program.add_command(agents)
program.add_command(keys)
program.add_command(operators)
program.add_command(owners)
program.add_command(retention)
