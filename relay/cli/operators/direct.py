"""The operators' API over the database itself, where no relay runs that could be asked."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import click
from aiohttp import web

from relay.cli.agents import account
from relay.cli.operators.desk import TRY_SECONDS, Desk
from relay.cli.running import opened
from relay.client.calling import Calling, Tokens
from relay.config import Config
from relay.operators import audit
from relay.operators.direct import application
from relay.storage import schema
from relay.storage.engine import Database


@asynccontextmanager
async def at_the_database(config: Config, reason: str, tenant: str | None) -> AsyncIterator[Desk]:
    """Whatever is done there is done by this account, and that it came is in the audit log before it does anything."""
    tenant = tenant or _only_tenant(config)
    actor = f"cli-direct:{account()}"
    async with opened(config) as db:
        await schema.require_current(db)
        await _announce(db, actor, tenant, reason)
        async with _answering(application(db, config, tenant=tenant, actor=actor)) as desk:
            yield desk


def _only_tenant(config: Config) -> str:
    """The tenant, where tokens name none: then it is their issuer."""
    issuers = config.identity.issuers
    if len(issuers) > 1 or issuers[0].tenant_claim is not None:
        raise click.UsageError("whose submissions? Say --tenant, as its tokens name it")
    return issuers[0].issuer


async def _announce(db: Database, actor: str, tenant: str, reason: str) -> None:
    context = click.get_current_context()
    async with db.write() as connection:
        await audit.record(
            connection,
            at=await db.now_ms(connection),
            actor=actor,
            action="direct.use",
            target="database",
            tenant=tenant,
            after={"command": context.command_path},
            why=reason,
        )


@asynccontextmanager
async def _answering(app: web.Application) -> AsyncIterator[Desk]:
    """On a socket in a directory that only this account may enter (mode 0700), for as long as the command runs."""
    with tempfile.TemporaryDirectory(prefix="relay-") as directory:
        socket = str(Path(directory) / "desk")
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.UnixSite(runner, socket).start()
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket)) as http:  # noqa: TID251 - to itself
                yield Desk(Calling("http://database", Tokens(_none), http, try_seconds=TRY_SECONDS), "the database")
        finally:
            await runner.cleanup()


async def _none() -> str:
    """No token: the socket is the proof."""
    return "none"
