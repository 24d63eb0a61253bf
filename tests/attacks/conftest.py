"""A relay's border as an attacker meets it: a verifier that allows every algorithm, behind real HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpClient

from relay.http import problems
from relay.identity.authentication import VERIFIER, authenticate
from relay.identity.model import ALGORITHMS, IssuerPolicy
from relay.identity.refusals import Defect
from tests.attacks.answers import Seen, without_chance
from tests.identity.conftest import Gate, door, egress, fetches, gate, issuer, keys
from tests.support.gateway import Gateway, small_world
from tests.support.issuer import AUDIENCE, TestIssuer

__all__ = ["door", "egress", "fetches", "gate", "issuer", "keys"]

Refuse = Callable[[str], Awaitable[Defect]]


@pytest.fixture
def policy(issuer: TestIssuer) -> IssuerPolicy:
    """Every algorithm that the relay knows, so that nothing is refused only because a list is short."""
    return IssuerPolicy(
        issuer=issuer.url,
        audience=AUDIENCE,
        algorithms=tuple(ALGORITHMS),
        tenant_claim="tenant",
        jwks_uri=issuer.jwks_uri,
    )


class Border:
    """The verifier behind HTTP. ``refuse`` holds each refusal against the first one, byte by byte."""

    def __init__(self, gate: Gate, ask: Callable[[str], Awaitable[Seen]]) -> None:
        self.gate = gate
        self.ask = ask
        self._reference: Seen | None = None

    async def refuse(self, token: str) -> Defect:
        """Why the token is refused; the caller sees the one 401, with nothing different in it."""
        reason = await self.gate.refuse(token)
        if _fits_a_header(token):
            seen = await self.ask(token)
            self._reference = self._reference or await self.ask("nonsense")
            assert seen == self._reference
            assert seen.status == 401
        return reason


def _fits_a_header(token: str) -> bool:
    """Other tokens cannot be sent by a client that keeps to HTTP; the server refuses the whole request."""
    return token.isascii() and token.isprintable() and token == token.strip() and 0 < len(token) < 8000


@pytest.fixture
async def border(gate: Gate, aiohttp_client: AiohttpClient) -> Border:
    async def show(request: web.Request) -> web.Response:
        return web.json_response({"subject": (await authenticate(request)).subject})

    app = web.Application(middlewares=[problems.middleware])
    app[VERIFIER] = gate.verifier
    app.router.add_get("/caller", show)
    client = await aiohttp_client(app)

    async def ask(token: str) -> Seen:
        async with client.get("/caller", headers={"Authorization": f"Bearer {token}"}) as response:
            return Seen(response.status, without_chance(response.headers), await response.read())

    return Border(gate, ask)


@pytest.fixture
async def gateway(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[Gateway]:
    """A whole relay whose deliveries end at once: what is tried here happens before the commit."""
    async with small_world(tmp_path, sqlite_database_url, schedule='["1h"]') as (running, _):
        yield running
