"""Deliveries by token exchange, through a whole relay: the owner's live token goes to its issuer, and nowhere else."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from registry.credentials.token_exchange import ACCESS_TOKEN_TYPE
from relay.config import load
from tests.support.credentials import KEY, private_file
from tests.support.gateway import Gateway, gateway, new_id, write_config
from tests.support.issuer import TestIssuer
from tests.support.specialist import Received, Specialist, acknowledge
from tests.support.token_endpoint import TokenEndpoint, read_proof

CREDENTIAL = """
  [[agents.credentials]]
  mode = "{mode}"
  client_id = "workbench"
  issuer = "{issuer}"
  token_endpoint = "{endpoint}"
  key_file = "client.pem"
  resource = "https://literature.example.org"
  scope = "feedback:write"
"""


class World:
    """A relay, its specialist, and the token endpoints of its credentials in their order."""

    def __init__(self, relay: Gateway, specialist: Specialist, endpoints: list[TokenEndpoint]) -> None:
        self.relay = relay
        self.specialist = specialist
        self.endpoints = endpoints

    async def rate(self, token: str, **fields: Any) -> Any:
        """Rate a task of alice's that ran as herself."""
        await self.relay.record("task-1", ranAs="owner")
        return await self.relay.rate("task-1", token=token, **fields)

    def tokens(self) -> list[str]:
        return [post.headers["Authorization"] for post in self.specialist.posts]


@asynccontextmanager
async def running(directory: Path, database_url: str, *modes: str, more: str = "") -> AsyncIterator[World]:
    private_file(directory / "client.pem", KEY.as_pem(private=True))
    async with AsyncExitStack() as stack:
        issuer = await stack.enter_async_context(TestIssuer())
        specialist = await stack.enter_async_context(Specialist())
        endpoints = [await stack.enter_async_context(TokenEndpoint()) for _ in modes]
        for endpoint in endpoints:
            endpoint.members = {"issued_token_type": ACCESS_TOKEN_TYPE}
        path = write_config(directory, database_url, issuer, {"literature": specialist.origin})
        written = path.read_text().partition("  [[agents.credentials]]")[0]
        for mode, endpoint in zip(modes, endpoints, strict=True):
            written += CREDENTIAL.format(mode=mode, issuer=issuer.url, endpoint=endpoint.url) + more
        path.write_text(written)
        relay = await stack.enter_async_context(gateway(load(path, {}), issuer))
        yield World(relay, specialist, endpoints)


@pytest.fixture
async def world(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[World]:
    """SQLite is enough here: where tokens go does not depend on the engine."""
    async with running(tmp_path, sqlite_database_url, "token_exchange") as world:
        yield world


async def test_while_the_owner_is_here(world: World):
    """The live token goes to the token endpoint alone; the specialist gets what it brought."""
    live = world.relay.token()
    saved = await world.rate(live)
    assert (saved.status, saved.json["state"]) == (201, "saved")
    [form] = world.endpoints[0].forms
    assert (form["subject_token"], form["resource"]) == (live, "https://literature.example.org")
    assert all(live not in value for post in world.specialist.received for value in post.headers.values())
    assert world.tokens()[0].startswith("Bearer ")


async def test_a_specialists_401_gets_one_fresh_token(world: World):
    """A kept token that a specialist refuses is exchanged anew, once; the same bytes go out under the new one."""
    refused: list[str] = []

    async def behave(received: Received) -> web.StreamResponse:
        if not refused:
            refused.append(received.headers["Authorization"])
            return web.json_response({}, status=401)
        return await acknowledge(received)

    world.specialist.behave = behave
    assert (await world.rate(world.relay.token())).status == 201
    first, second = world.specialist.posts
    assert first.body == second.body
    assert first.headers["Authorization"] != second.headers["Authorization"]
    assert len(world.endpoints[0].forms) == 2


async def test_a_refused_live_token_waits_for_the_owner(world: World):
    """The reason can be read, nothing reaches the specialist, and no attempt of the schedule is used up."""
    world.endpoints[0].refuse("invalid_grant")
    answer = await world.rate(world.relay.token())
    assert (answer.status, answer.json["state"]) == (202, "needs_owner")
    assert answer.json["lastAttempt"]["reason"] == "subject_token_refused:invalid_grant"
    assert world.specialist.received == []
    [row] = await world.relay.rows("SELECT schedule_position, needs_presence FROM deliveries")
    assert (row["schedule_position"], bool(row["needs_presence"])) == (0, True)


async def test_a_failing_server_is_not_the_owners_doing(world: World):
    """A token endpoint in trouble is said to be that; the delivery waits all the same, and is lost by nobody."""
    world.endpoints[0].refuse("temporarily_unavailable", 503)
    answer = await world.rate(world.relay.token())
    assert answer.status == 202
    assert answer.json["lastAttempt"]["reason"] == "token_refused:temporarily_unavailable"


async def test_another_credential_goes_on_while_the_owner_is_away(tmp_path: Path, sqlite_database_url: str):
    """Where the relay may also assert the owner, a live token that is refused holds nothing up."""
    async with running(tmp_path, sqlite_database_url, "token_exchange", "owner_assertion") as world:
        world.endpoints[0].refuse("invalid_grant")
        submission = new_id()
        await world.rate(world.relay.token(), id=submission)
        await world.relay.until(submission, "saved")
        assert len(world.endpoints[0].forms) == 1
        assert world.endpoints[1].assertion("assertion", KEY).claims["sub"] == "alice"
        reasons = await world.relay.rows("SELECT error_kind FROM attempts ORDER BY number")
        assert reasons[0]["error_kind"] == "subject_token_refused:invalid_grant"


async def test_bound_tokens_go_out_with_proofs(tmp_path: Path, sqlite_database_url: str):
    """Each request has a proof of its own, with the nonce that the specialist asks for; reading back has one too."""
    asked: list[Received] = []

    async def behave(received: Received) -> web.StreamResponse:
        asked.append(received)
        if len(asked) == 1:
            wanted = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "n1"}
            return web.Response(status=401, headers=wanted)
        return web.json_response({"code": "uuid_reused"}, status=409)

    async with running(tmp_path, sqlite_database_url, "token_exchange", more="  dpop = true\n") as world:
        world.endpoints[0].members |= {"token_type": "DPoP"}
        world.specialist.behave = behave
        await world.rate(world.relay.token())
        proofs = [read_proof(received.headers["DPoP"]).claims for received in world.specialist.received[:3]]
        url = f"{world.specialist.origin}/api/feedback"
        assert [(p["htm"], p["htu"], p.get("nonce")) for p in proofs] == [
            ("POST", url, None),
            ("POST", url, "n1"),
            ("GET", url, "n1"),
        ]
        assert len({proof["jti"] for proof in proofs}) == 3
        assert all(token.startswith("DPoP ") for token in world.tokens())
        assert len(world.endpoints[0].forms) == 1
