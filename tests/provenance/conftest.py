"""A gateway between two issuers, with clients and agents of every kind that recording tells apart; nothing is sent."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from relay.config import load
from tests.support.gateway import Answered, Gateway, gateway, write_config
from tests.support.issuer import TestIssuer

SECTIONS = """
[[identity.issuers]]
issuer = "{partner}"
audience = "https://relay.example.org"
tenant_claim = "tenant"

[identity.clients.narrow]          # some agents only, and for nobody but itself
agents = ["literature", "no-such-agent"]
issuer = "{login}"

[identity.clients.broker]          # for the people of both issuers
agents = ["*"]
on_behalf_of = ["{login}", "{partner}"]
issuer = "{login}"

[[agents]]                         # acts for the Workbench alone
id = "literature"
name = "Literature"
origin = "https://literature.example.org"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "{login}"
  token_file = "bearer"

[[agents]]                         # acts for the Workbench's people, also while they are away
id = "chemistry"
name = "Chemistry"
origin = "https://chemistry.example.org"
protocol = "roblox-v1"
  [[agents.credentials]]
  mode = "static_bearer"
  client_id = "workbench"
  issuer = "{login}"
  token_file = "bearer"
  [[agents.credentials]]
  mode = "owner_assertion"
  client_id = "workbench"
  issuer = "{login}"
  token_endpoint = "{login}/token"
  key_file = "workbench.pem"
  resource = "https://chemistry.example.org"
"""


@dataclass
class Recording:
    """A gateway that takes provenance, and the two issuers whose people and clients it knows."""

    gateway: Gateway
    login: TestIssuer
    partner: TestIssuer

    def machine(self, client: str = "workbench", *, issuer: TestIssuer | None = None, **claims: Any) -> str:
        """A token of a client that speaks for itself."""
        return (issuer or self.login).mint_machine(
            client_id=client, **{"scope": "provenance:write feedback:read", "tenant": "acme", **claims}
        )

    def human(self, sub: str = "alice", *, issuer: TestIssuer | None = None, **claims: Any) -> str:
        """A token of a person, by way of a client (the Workbench)."""
        return (issuer or self.login).mint(
            sub=sub, **{"scope": "provenance:write feedback:read", "tenant": "acme", **claims}
        )

    async def put(
        self,
        task: str = "t1",
        *,
        agent: str = "literature",
        token: str | None = None,
        path: str | None = None,
        **body: Any,
    ) -> Answered:
        """Record a task by the person ``alice``, unless ``token`` is another's. ``path`` is what the URL ends with."""
        said = {"conversationId": "c1", "answerId": "a1", "role": "specialist", "status": "completed", **body}
        path = path or f"{quote(agent, safe='')}/{quote(task, safe='')}"
        said = {name: value for name, value in said.items() if value is not None}
        return await self.gateway.call("PUT", f"/api/provenance/tasks/{path}", said, token=token or self.human())

    async def rows(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        return await self.gateway.rows(statement, **parameters)

    async def count(self, table: str = "provenance") -> int:
        return int((await self.rows(f"SELECT count(*) AS total FROM {table}"))[0]["total"])


@pytest.fixture
async def recording(tmp_path: Path, database_url: str) -> AsyncIterator[Recording]:
    async with TestIssuer() as login, TestIssuer() as partner:
        path = write_config(tmp_path, database_url, login, {}, poll=60)
        text = path.read_text().replace(
            f'on_behalf_of = ["{login.url}"]', f'on_behalf_of = ["{login.url}"]\nissuer = "{login.url}"', 1
        )
        path.write_text(text + SECTIONS.format(login=login.url, partner=partner.url))
        async with gateway(load(path, {}), login, worker=False) as running:
            yield Recording(running, login, partner)
