"""Where an operator sits: which relay is meant, as whom, and in whose time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from relay.cli.operators.printing import zone_of
from relay.cli.running import WRONG_CONFIGURATION, Failure, Session, run

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """What stands before the command's name. ``reason`` is said with ``direct`` and no other way."""

    session: Session
    relay: str | None
    token_file: Path | None
    ca_file: Path | None
    state: Path
    zone_name: str
    direct: bool
    reason: str | None
    tenant: str | None

    @property
    def zone(self) -> tzinfo:
        return zone_of(self.zone_name)

    def url(self) -> str:
        """The relay's address. Raises `click.UsageError` where nobody said it."""
        url = self.relay
        if url is None and self.session.config_file is not None:
            url = self.session.load().server.public_url
        if url is None:
            raise click.UsageError("which relay? Say --relay URL, set RELAY_URL, or name a configuration by --config")
        return url.rstrip("/")

    def ask(self, work: "Callable[[Desk], Awaitable[T]]") -> T:
        """Do something at the relay's desk."""

        async def do() -> T:
            async with self.desk() as desk:
                return await work(desk)

        return run(do())

    @asynccontextmanager
    async def desk(self) -> "AsyncIterator[Desk]":
        if self.direct:
            from relay.cli.operators.direct import at_the_database

            async with at_the_database(self.session.load(), self._reason(), self.tenant) as desk:
                yield desk
            return
        from relay.cli.operators.desk import over_http

        url = self.url()
        async with over_http(url, token_file=self.token_file, state=self.state, ca_file=self.ca_file) as desk:
            yield desk

    def why(self, said: str | None) -> str:
        """The reason of a decision; the one for coming directly will do."""
        why = said or (self.reason if self.direct else None)
        if not why:
            raise click.UsageError("say --why: the reason, for the audit log")
        return why

    def need_signing_in(self) -> None:
        """What only makes sense over the API."""
        if self.direct:
            raise Failure("this is about the API: leave --direct out", WRONG_CONFIGURATION)

    def _reason(self) -> str:
        if not self.reason:
            raise click.UsageError("--direct passes the API by: say --reason, for the audit log")
        return self.reason
