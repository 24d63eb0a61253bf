"""The scene of a crash: a configuration, the processes that run it, and the database that outlives them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from joserfc.jwk import ECKey
from sqlalchemy import text

from relay.storage.engine import Database
from tests.support.gateway import write_config
from tests.support.issuer import TestIssuer
from tests.support.processes import GatewayProcess, Process, Processes, until
from tests.support.token_endpoint import TokenEndpoint

SETTINGS: Mapping[str, Any] = {"level": "info", "deadline": 10, "lease": 30, "grace": 30}
"""Deadlines that no busy machine exceeds; a test that needs a lease to end says so, or has a short one."""

WITH_TOKENS = """
[[agents]]
id = "literature"
name = "Literature"
origin = "{origin}"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "client_credentials"
  client_id = "workbench"
  issuer = "{issuer}"
  token_endpoint = "{token_endpoint}"
  key_file = "workbench.pem"
  resource = "{origin}"
"""


STORED = """
SELECT s.id, s.task, s.payload, d.state, d.claim_token, d.lease_until
FROM submissions s LEFT JOIN deliveries d ON d.submission = s.seq
"""


class Scene:
    """What a test looks at before, between and after the lives of processes."""

    def __init__(self, processes: Processes, db: Database) -> None:
        self._processes = processes
        self.db = db

    async def serve(self, *options: str) -> GatewayProcess:
        return await self._processes.serve(*options)

    async def work(self) -> Process:
        return await self._processes.work()

    async def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        async with self.db.read() as connection:
            found = await connection.execute(text(statement), parameters)
            return [dict(row) for row in found.mappings()]

    async def stored(self) -> dict[str, Any]:
        """The only submission that there is, with its delivery. Fails where there is none, or a second one."""
        [row] = await self.rows(STORED)
        return {**row, "payload": bytes(row["payload"])}

    async def reached(self, *states: str) -> dict[str, Any]:
        """The only submission, once its delivery is in one of these states."""

        async def found() -> dict[str, Any] | None:
            stored = await self.stored()
            return stored if stored["state"] in states else None

        return await until(found, f"a delivery that is {' or '.join(states)}") or {}

    async def attempts(self) -> list[dict[str, Any]]:
        """The attempts on record, in the order in which they were written."""
        return await self.rows("SELECT * FROM attempts ORDER BY id")

    async def end_leases(self) -> None:
        """Let the time of every lease be over, as it will be for whoever waits."""
        async with self.db.write() as connection:
            await connection.execute(
                self.db.sql("UPDATE deliveries SET lease_until = {now} WHERE state = 'sending' AND lease_until > {now}")
            )

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Nobody else writes submissions or deliveries within this block; everybody may read them."""
        async with self.db.write() as connection:  # on SQLite this is the lock
            if self.db.dialect == "postgresql":
                await connection.execute(text("LOCK TABLE submissions, deliveries IN SHARE MODE"))
            yield

    async def blocked(self) -> list[int]:
        """PostgreSQL's processes that wait for the lock, once there is one. SQLite has none that could be seen."""
        if self.db.dialect == "sqlite":
            return []

        async def waiting() -> list[int]:
            found = await self.rows(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            return [row["pid"] for row in found]

        return await until(waiting, "a statement that waits for the lock")

    async def forget_blocked(self) -> None:
        """Let statements that wait for the lock never have arrived.

        PostgreSQL carries out what has reached it, even for a client that has died since. SQLite is a library: its
        transactions die with the process.
        """
        for pid in await self.blocked():
            await self.rows("SELECT pg_terminate_backend(:pid)", pid=pid)


class SceneAt(Protocol):
    """Sets the scene around a specialist's origin."""

    def __call__(
        self, origin: str, *, tokens: TokenEndpoint | None = None, **settings: Any
    ) -> AbstractAsyncContextManager[Scene]: ...


@asynccontextmanager
async def scene_at(
    directory: Path, database_url: str, origin: str, *, tokens: TokenEndpoint | None = None, **settings: Any
) -> AsyncIterator[Scene]:
    """One agent, ``literature``, at this origin; with ``tokens`` each attempt needs a token from there."""
    async with TestIssuer() as issuer:
        agents = {} if tokens else {"literature": origin}
        path = write_config(directory, database_url, issuer, agents, **{**SETTINGS, **settings})
        if tokens:
            _write_key(directory / "workbench.pem")
            agent = WITH_TOKENS.format(origin=origin, issuer=issuer.url, token_endpoint=tokens.url)
            path.write_text(path.read_text() + agent)
        db = Database.open(database_url)
        try:
            async with Processes(path, issuer) as processes:
                yield Scene(processes, db)
        finally:
            await db.close()


def _write_key(path: Path) -> None:
    path.write_bytes(ECKey.generate_key("P-256").as_pem(private=True))
    path.chmod(0o600)
