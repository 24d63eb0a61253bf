"""A whole relay in the test's own loop: real database, real sockets, real tokens."""

import asyncio
import secrets
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import web
from sqlalchemy import text

from relay.app import Relay, assembled, build_app
from relay.config import Config, load
from relay.http.server import Runner
from relay.processes import running
from tests.support import contract
from tests.support.issuer import TestIssuer
from tests.support.specialist import Specialist

SECRET = "pilot-secret-0123456789abcdef"

CONFIG = """
[server]
port = {port}
public_url = "https://relay.example.org"
development = true
shutdown_grace_seconds = {grace}
trusted_proxies = {proxies}
cors_origins = {origins}
[database]
url = "{database}"
auto_migrate = false
[owners]
pepper_file = "pepper"
sealing_key_file = "sealing-key"
[[identity.issuers]]
issuer = "{issuer}"
audience = "https://relay.example.org"
tenant_claim = "tenant"
[identity.clients.workbench]
agents = {agents}
on_behalf_of = ["{issuer}"]
[delivery]
deadline_seconds = {deadline}
lease_seconds = {lease}
schedule = {schedule}
poll_seconds = {poll}
in_flight_per_agent = {in_flight}
accept_queue = {queue}
[delivery.reconcile]
enabled = {reading_back}
schedule = {reconcile}
[delivery.breaker]
minimum = {breaker_minimum}
[limits]
per_owner = {per_owner}
per_client = {per_client}
per_address = {per_address}
[registry]
admin_issuers = {admins}
four_eyes = {four_eyes}
[logging]
level = "{level}"
"""

AGENT = """
[[agents]]
id = "{id}"
name = "{name}"
origin = "{origin}"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "{issuer}"
  token_file = "bearer"
"""

SETTINGS: Mapping[str, Any] = {
    "port": 0,
    "level": "error",
    "grace": 5,
    "proxies": "[]",
    "origins": "[]",
    "more": "",
    "per_owner": 0,
    "per_client": 0,
    "per_address": 0,
    "agents": '["*"]',
    "deadline": 5,
    "lease": 20,
    "schedule": '["0s", "50ms", "50ms", "100ms", "200ms", "500ms", "1s", "1s", "1s", "1s"]',
    "poll": 0.05,
    "in_flight": 16,
    "queue": 1024,
    "breaker_minimum": 1000,
    "reading_back": "true",
    "reconcile": '["1h"]',
    "four_eyes": "false",
}


@dataclass
class Answered:
    """An answer of the gateway."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        import json  # noqa: PLC0415

        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])


def write_config(
    directory: Path, database_url: str, issuer: TestIssuer, agents: Mapping[str, str], **settings: Any
) -> Path:
    """A configuration file with agents by id and origin, and their secret in place."""
    (directory / "bearer").write_text(SECRET)
    (directory / "bearer").chmod(0o600)
    fixed = {"database": database_url, "issuer": issuer.url}
    values = {**SETTINGS, "admins": f'["{issuer.url}"]', **settings, **fixed}
    parts = [CONFIG.format(**values)]
    parts += [AGENT.format(id=i, name=i.title(), origin=origin, issuer=issuer.url) for i, origin in agents.items()]
    path = directory / "relay.toml"
    path.write_text("\n".join([*parts, values["more"]]))
    return path


class Caller:
    """What a Workbench and its people would do with a gateway, wherever that runs."""

    def __init__(self, issuer: TestIssuer, port: int, http: aiohttp.ClientSession) -> None:  # noqa: TID251
        self.issuer = issuer
        self.port = port
        self._http = http

    def token(
        self, sub: str = "alice", scope: str = "feedback:read feedback:write provenance:write", **claims: Any
    ) -> str:
        return self.issuer.mint(sub=sub, scope=scope, **{"tenant": "acme", **claims})

    @property
    def machine(self) -> str:
        """A token of the Workbench itself."""
        return self.token("workbench", "provenance:write feedback:read feedback:write")

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answered:
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        kwargs: dict[str, Any] = {"json": body} if body is not None else {}
        if data is not None:
            kwargs = {"data": data}
            sent.setdefault("Content-Type", "application/json")
        url = f"http://127.0.0.1:{self.port}{path}"
        from yarl import URL  # noqa: PLC0415

        async with self._http.request(method, URL(url, encoded=True), headers=sent, **kwargs) as response:
            answered = Answered(response.status, response.headers, await response.read())
        contract.check(method, path, answered.status, answered.headers, answered.body)
        return answered

    async def record(
        self, task: str, *, agent: str = "literature", sub: str | None = "alice", **fields: Any
    ) -> Answered:
        """Record a finished specialist task of ``sub`` that ran as the client, through the Workbench's own token."""
        body = {
            "conversationId": "c1",
            "answerId": "a1",
            "role": "specialist",
            "status": "completed",
            "ranAs": "client",
            **({"subject": sub} if sub else {}),
            **fields,
        }
        path = f"/api/provenance/tasks/{quote(agent, safe='')}/{quote(task, safe='')}"
        return await self.call("PUT", path, {k: v for k, v in body.items() if v is not None}, token=self.machine)

    async def rate(
        self,
        task: str,
        *,
        sub: str = "alice",
        id: str | None = None,
        wait: str | None = "wait=10",
        token: str | None = None,
        **fields: Any,
    ) -> Answered:
        body = {"id": id or str(uuid.uuid4()), "taskId": task, "rating": "up", **fields}
        headers = {"Prefer": wait} if wait else {}
        return await self.call("POST", "/api/feedback", body, token=token or self.token(sub), headers=headers)

    async def show(self, submission: str, *, sub: str = "alice") -> Answered:
        return await self.call("GET", f"/api/feedback/{submission}", token=self.token(sub))

    async def until(self, submission: str, *states: str, sub: str = "alice") -> dict[str, Any]:
        """The submission once it is in one of the states; the test's timeout bounds the wait."""
        while True:
            shown = (await self.show(submission, sub=sub)).json
            if shown.get("state") in states:
                return dict(shown)
            await asyncio.sleep(0.02)


class Gateway(Caller):
    """A relay that runs in the test's own loop, and what an operator would look up in its database."""

    def __init__(self, relay: Relay, issuer: TestIssuer, port: int, http: aiohttp.ClientSession) -> None:  # noqa: TID251
        super().__init__(issuer, port, http)
        self.relay = relay

    async def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        async with self.relay.db.read() as connection:
            found = await connection.execute(text(statement), parameters)
            return [dict(row) for row in found.mappings()]

    async def change(self, statement: str, **parameters: Any) -> None:
        async with self.relay.db.write() as connection:
            await connection.execute(text(statement), parameters)


@asynccontextmanager
async def gateway(
    config: Config, issuer: TestIssuer, *, worker: bool = True, clock: Any = None
) -> AsyncIterator[Gateway]:
    """Run a relay of this configuration for a while."""
    async with assembled(config, clock=clock) as relay, running(relay, worker=worker):
        runner = Runner(build_app(relay), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with aiohttp.ClientSession() as http:  # noqa: TID251 - a caller, not the relay
            yield Gateway(relay, issuer, runner.addresses[0][1], http)
        await runner.cleanup()


@asynccontextmanager
async def small_world(
    directory: Path,
    database_url: str,
    *,
    agents: tuple[str, ...] = ("literature", "chemistry"),
    worker: bool = True,
    **settings: Any,
) -> AsyncIterator[tuple[Gateway, dict[str, Specialist]]]:
    """An issuer, specialists by id, and a relay between them."""
    specialists = {agent: Specialist() for agent in agents}
    async with TestIssuer() as issuer:
        for specialist in specialists.values():
            await specialist.start()
        path = write_config(directory, database_url, issuer, {a: s.origin for a, s in specialists.items()}, **settings)
        try:
            async with gateway(load(path, {}), issuer, worker=worker) as running_gateway:
                yield running_gateway, specialists
        finally:
            for specialist in specialists.values():
                await specialist.stop()


def new_id() -> str:
    return str(uuid.uuid4())


def unguessable() -> str:
    return secrets.token_hex(8)
