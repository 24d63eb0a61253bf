"""A whole relay with a rating or two, and a terminal beside it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from relay.cli import main
from tests.support.gateway import Gateway, new_id, small_world
from tests.support.logs import Log, logging_to_memory
from tests.support.specialist import Specialist, acknowledge, answering

ALL = "operator:read operator:write registry:admin"
TWICE = '["0s", "1h"]'


@dataclass
class Station:
    """Olga, who operates, at a terminal."""

    relay: Gateway
    specialist: Specialist
    directory: Path
    log: Log

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.relay.port}"

    def token_file(self, scope: str = ALL, **claims: Any) -> Path:
        path = self.directory / "token"
        path.write_text(self.relay.token("olga", scope, **claims) + "\n")
        return path

    async def run(self, *arguments: str, scope: str = ALL, before: tuple[str, ...] = (), **env: str) -> Result:
        """What the command prints and how it ends; ``before`` stands before its name."""
        said = ("--relay", self.url, "--token-file", str(self.token_file(scope)))
        return await self.plainly("operators", *said, *before, *arguments, **env)

    async def on_a_screen(self, *arguments: str, columns: int) -> Result:
        """The same as if somebody were looking at it."""
        return await self.run(*arguments, FORCE_COLOR="1", TERM="xterm", COLUMNS=str(columns))

    async def plainly(self, *arguments: str, **env: str) -> Result:
        """A command with nothing but what is said here."""
        kept = {"XDG_STATE_HOME": str(self.directory / "state"), **env}
        result = await asyncio.to_thread(CliRunner(env=kept).invoke, main, arguments, prog_name="relay")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    async def direct(self, *arguments: str, reason: str = "the relay is down") -> Result:
        """At the database."""
        said = ("--config", str(self.directory / "relay.toml"), "operators", "--direct", "--tenant", "acme")
        return await self.plainly(*said, "--reason", reason, *arguments)

    async def rated(self, task: str, status: int = 201, **fields: Any) -> tuple[str, str]:
        """A rating that the specialist answers so: its owner's key and its UUID."""
        self.specialist.behave = acknowledge if status == 201 else answering(status)
        submission = new_id()
        await self.relay.record(task)
        await self.relay.rate(task, id=submission, **fields)
        statement = "SELECT o.owner_key FROM submissions s JOIN owners o ON o.id = s.owner WHERE s.id = :id"
        [row] = await self.relay.rows(statement, id=submission)
        return row["owner_key"], submission

    async def audit(self, action: str) -> list[dict[str, Any]]:
        return await self.relay.rows("SELECT * FROM audit_log WHERE action = :action ORDER BY seq", action=action)


@pytest.fixture
async def station(tmp_path: Path, database_url: str) -> AsyncIterator[Station]:
    """A relay that tries once at once, and again in an hour; once on each engine."""
    async with seated(tmp_path, database_url) as station:
        yield station


@pytest.fixture
async def lite(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Station]:
    """The same on SQLite alone, for what is not about rows."""
    async with seated(tmp_path, sqlite_database_url) as station:
        yield station


@asynccontextmanager
async def seated(directory: Path, database_url: str, **settings: Any) -> AsyncIterator[Station]:
    """Somebody at a terminal beside a relay, whose log goes elsewhere than to the same screen."""
    with logging_to_memory() as log:
        async with small_world(directory, database_url, **{"schedule": TWICE, **settings}) as (relay, specialists):
            yield Station(relay, specialists["literature"], directory, log)


def lines(result: Result) -> list[dict[str, Any]]:
    """JSON Lines as printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]
