"""A relay with a console that really delivers: its specialists, people who rate, and somebody who operates it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp

from relay.clock import Clock, SystemClock
from relay.demo.issuer import TokenRequest
from relay.processes import running
from tests.support.console import SCOPES, World, world
from tests.support.specialist import Specialist

MORE = """
[identity.clients.workbench]
agents = ["*"]
on_behalf_of = ["{issuer}"]
[operators]
long_running_seconds = 1
[delivery]
deadline_seconds = 5
lease_seconds = 20
schedule = {schedule}
poll_seconds = 0.05
[delivery.breaker]
minimum = 1000
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
ONE_TRY = '["0s"]'


@dataclass
class Consoled:
    """What people at a Workbench and an operator do; ``specialists`` by their ids."""

    world: World
    specialists: dict[str, Specialist]
    http: aiohttp.ClientSession  # noqa: TID251 - a Workbench, not the relay
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.world.url

    async def call(self, method: str, path: str, body: object, *, user: str) -> Any:
        """A call of the API, which has to succeed."""
        if user not in self.tokens:
            answer = await self.world.issuer.answer_for(TokenRequest(user=user))
            self.tokens[user] = str(answer["access_token"])
        headers = {"Authorization": f"Bearer {self.tokens[user]}", "Prefer": "wait=10"}
        async with self.http.request(method, self.url + path, json=body, headers=headers) as answer:
            assert answer.status < 300, await answer.text()
            return await answer.json()

    async def rate(
        self,
        task: str,
        *,
        agent: str = "literature",
        rating: str = "up",
        comment: str | None = None,
        user: str = "alice",
    ) -> dict[str, Any]:
        """A finished task of ``user``'s, and their rating of it, once its first attempt has ended."""
        record = {
            "conversationId": "c1",
            "answerId": f"a-{task}",
            "role": "specialist",
            "status": "completed",
            "ranAs": "client",
            "subject": user,
            "evidence": [{"kind": "document", "id": "doc-1"}],
        }
        await self.call("PUT", f"/api/provenance/tasks/{agent}/{quote(task, safe='')}", record, user="workbench")
        said = {"id": str(uuid.uuid4()), "taskId": task, "rating": rating, "agent": agent}
        return dict(
            await self.call("POST", "/api/feedback", {**said, "comment": comment} if comment else said, user=user)
        )

    async def reached(self, submission: str, state: str) -> None:
        """Return once it is in this state; the test's timeout bounds the wait."""
        while (await self.state(submission)) != state:  # noqa: ASYNC110 - it is the database that is asked
            await asyncio.sleep(0.02)

    async def state(self, submission: str) -> str:
        rows = await self.world.rows(
            f"SELECT d.state FROM submissions s JOIN deliveries d ON d.submission = s.seq WHERE s.id = '{submission}'"
        )
        return str(rows[0]["state"])

    async def address(self, submission: str) -> str:
        """The page of a submission."""
        rows = await self.world.rows(
            f"SELECT o.owner_key FROM submissions s JOIN owners o ON o.id = s.owner WHERE s.id = '{submission}'"
        )
        return f"/console/submissions/{rows[0]['owner_key']}/{submission}"


@asynccontextmanager
async def consoled(
    directory: Path,
    database_url: str,
    *,
    clock: Clock | None = None,
    agents: tuple[str, ...] = ("literature", "chemistry"),
    schedule: str = ONE_TRY,
    scopes: tuple[str, ...] = SCOPES,
    registry: str = "",
) -> AsyncIterator[Consoled]:
    """By default a specialist that does not answer well once is not asked again."""
    (directory / "bearer").write_text("pilot-secret-0123456789abcdef")
    (directory / "bearer").chmod(0o600)
    specialists = {agent: Specialist() for agent in agents}
    for specialist in specialists.values():
        await specialist.start()
    try:
        parts = [MORE.replace("{schedule}", schedule)]
        parts += [
            AGENT.replace("{id}", agent).replace("{name}", agent.title()).replace("{origin}", specialist.origin)
            for agent, specialist in specialists.items()
        ]
        async with (
            world(
                directory, database_url, clock or SystemClock(), scopes=scopes, registry=registry, more="".join(parts)
            ) as made,
            running(made.relay, worker=True),
            aiohttp.ClientSession() as http,  # noqa: TID251 - a Workbench, not the relay
        ):
            yield Consoled(made, specialists, http)
    finally:
        for specialist in specialists.values():
            await specialist.stop()
