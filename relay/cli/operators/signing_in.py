"""``relay operators login`` and ``logout``"""

from typing import TYPE_CHECKING, Any

import click

from relay.cli.operators.logins import Login, Logins
from relay.cli.operators.printing import plain
from relay.cli.running import run

if TYPE_CHECKING:
    from relay.cli.operators.device import Invitation
    from relay.cli.operators.terminal import Terminal
    from relay.config import Config

SCOPE = "operator:read operator:write"


@click.command()
@click.option("--issuer", envvar="RELAY_ISSUER", show_envvar=True, metavar="URL", help="Where people sign in.")
@click.option(
    "--client-id",
    envvar="RELAY_CLIENT_ID",
    show_envvar=True,
    metavar="ID",
    help="This program's name at the issuer: a public client with the device authorization grant.",
)
@click.option("--scope", help=f"What to ask for. Left out: {SCOPE}. Decisions about agents take registry:admin too.")
@click.option("--resource", metavar="URI", help="Whom the token is for (RFC 8707). Left out: the relay.")
@click.pass_obj
def login(terminal: "Terminal", /, **said: str | None) -> None:
    """Sign in with a browser, here or on any other device.

    Prints an address and a code, and waits until you have signed in there (RFC 8628). The token is kept in a file that
    only you can read, and renewed as long as the issuer lets it be. What is left out is taken from [operators.cli] of
    the configuration, or from the last sign-in at this relay.
    """
    terminal.need_signing_in()
    relay, logins = terminal.url(), Logins(terminal.state)
    asked = _asked(terminal, logins.find(relay), said)
    kept = run(_sign_in(terminal, relay, asked))
    logins.keep(kept)
    click.echo(f"signed in at {relay}{_until(kept, terminal)}", err=True)


@click.command()
@click.pass_obj
def logout(terminal: "Terminal") -> None:
    """Forget the sign-in at this relay. The token itself is good until it expires."""
    terminal.need_signing_in()
    there = Logins(terminal.state).forget(terminal.url())
    click.echo("signed out" if there else "nobody was signed in", err=True)


def _asked(terminal: "Terminal", last: Login | None, said: dict[str, str | None]) -> dict[str, str | None]:
    """Issuer, client, scope and resource: as said, as configured, or as last time."""
    config = terminal.session.load() if terminal.session.config_file is not None else None
    configured = _configured(config)
    before: dict[str, Any] = {}
    if last is not None:
        before = {"issuer": last.issuer, "client_id": last.client_id, "scope": last.scope}
    asked = {name: said[name] or configured.get(name) or before.get(name) for name in said}
    for name in ("issuer", "client_id"):
        if not asked[name]:
            option = name.replace("_", "-")
            raise click.UsageError(f"say --{option}, or set it in [operators.cli] of the configuration")
    return {**asked, "scope": asked["scope"] or SCOPE, "resource": asked["resource"] or terminal.url()}


def _configured(config: "Config | None") -> dict[str, str | None]:
    if config is None:
        return {}
    cli = config.operators.cli
    issuers = config.identity.issuers
    issuer = cli.issuer or (issuers[0].issuer if len(issuers) == 1 else None)
    audience = next((each.audience for each in issuers if each.issuer == issuer), None)
    return {"issuer": issuer, "client_id": cli.client_id, "scope": cli.scope, "resource": audience}


async def _sign_in(terminal: "Terminal", relay: str, asked: dict[str, str | None]) -> Login:
    from relay.cli.operators.desk import session
    from relay.cli.operators.device import Issuer, Wanted
    from relay.cli.operators.tokens import login_of
    from relay.clock import SystemClock

    name, client_id = str(asked["issuer"]), str(asked["client_id"])
    wanted = Wanted(client_id=client_id, scope=asked["scope"], resource=asked["resource"])
    async with session(terminal.ca_file) as http:
        issuer = Issuer(http)
        endpoints = await issuer.discover(name)
        invitation = await issuer.begin(endpoints, wanted)
        _invite(invitation)
        granted = await issuer.finish(endpoints, wanted, invitation)
    blank = Login(
        relay=relay,
        issuer=name,
        client_id=client_id,
        token_endpoint=endpoints.token_endpoint,
        access_token="",
        scope=asked["scope"],
    )
    return login_of(granted, blank, SystemClock().unix())


def _invite(invitation: "Invitation") -> None:
    """On stderr, like all that a person reads beside a command's own output."""
    click.echo(f"Open   {plain(invitation.verification_uri)}", err=True)
    click.echo(f"Enter  {plain(invitation.user_code)}", err=True)
    if invitation.verification_uri_complete:
        click.echo(f"or just open  {plain(invitation.verification_uri_complete)}", err=True)
    click.echo(f"Waiting for you to sign in there, for {invitation.expires_in / 60:.0f} minutes.", err=True)


def _until(kept: Login, terminal: "Terminal") -> str:
    if kept.expires_at is None or kept.refresh_token is not None:
        return ""
    from relay.cli.operators.printing import when
    from relay.clock import rfc3339

    return f" until {when(rfc3339(round(kept.expires_at * 1000)), terminal.zone)}"
