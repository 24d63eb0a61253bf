"""Authentication over real HTTP: what a caller gets to see."""

from collections.abc import Iterable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from multidict import CIMultiDict
from pytest_aiohttp import AiohttpClient

from relay.http import problems
from relay.identity.authentication import PRINCIPAL, VERIFIER, authenticate, authorize, authorize_any
from tests.conftest import TurnableClock
from tests.identity.conftest import Gate
from tests.support.issuer import LIFETIME, TestIssuer

Client = TestClient[web.Request, web.Application]


async def show_caller(request: web.Request) -> web.Response:
    caller = await authorize(request, "feedback:write")
    again = await authenticate(request)
    assert caller is again is request[PRINCIPAL]
    return web.json_response({"subject": caller.subject})


async def show_reader(request: web.Request) -> web.Response:
    caller = await authorize_any(request, "feedback:read", "provenance:write")
    return web.json_response({"subject": caller.subject})


@pytest.fixture
async def client(gate: Gate, aiohttp_client: AiohttpClient) -> Client:
    """A server with the handler in a sub-application, as the composition root may place it."""
    part = web.Application()
    part.router.add_get("/caller", show_caller)
    part.router.add_get("/reader", show_reader)
    app = web.Application(middlewares=[problems.middleware])
    app[VERIFIER] = gate.verifier
    app.add_subapp("/api", part)
    return await aiohttp_client(app)


def bearers(*tokens: str) -> CIMultiDict[str]:
    return CIMultiDict([("Authorization", f"Bearer {token}") for token in tokens])


async def test_a_caller_is_known(client: Client, issuer: TestIssuer) -> None:
    """A good token with the scope reaches the handler, which finds the principal on the request."""
    async with client.get("/api/caller", headers=bearers(issuer.mint(sub="alice"))) as response:
        assert (response.status, await response.json()) == (200, {"subject": "alice"})


async def answers(client: Client, headers: Iterable[CIMultiDict[str]]) -> set[tuple[int, bytes]]:
    seen = set()
    for one in headers:
        async with client.get("/api/caller", headers=one) as response:
            assert response.headers["WWW-Authenticate"].startswith('Bearer realm="feedback-relay"')
            seen.add((response.status, await response.read()))
    return seen


async def test_every_defect_gets_the_same_bytes(client: Client, issuer: TestIssuer, clock: TurnableClock) -> None:
    """No token, another scheme, nonsense, a foreign issuer, a bad signature, an expired token: one 401."""
    expired = issuer.mint()
    clock.turn(LIFETIME)
    good = issuer.mint()
    tokens = ["nonsense", expired, good[:-4] + "AAAA", issuer.mint(iss="https://evil.example.org")]
    headers = [CIMultiDict(), CIMultiDict(Authorization="Basic eDp5"), *map(bearers, tokens)]
    ((status, _),) = await answers(client, headers)
    assert status == 401


async def test_two_headers_are_a_malformed_request(client: Client, issuer: TestIssuer) -> None:
    """Even two good ones: a proxy and we could each believe another."""
    ((status, body),) = await answers(client, [bearers(issuer.mint(), issuer.mint())])
    assert (status, b'"malformed_request"' in body) == (400, True)


async def test_a_token_in_the_query_is_a_malformed_request(client: Client, issuer: TestIssuer) -> None:
    """RFC 9700 section 4.3.2: addresses are logged, so a token there is refused even beside a good header."""
    token = issuer.mint()
    async with client.get("/api/caller", params={"access_token": token}, headers=bearers(token)) as response:
        body = await response.text()
        assert (response.status, token in body) == (400, False)
        assert 'error="invalid_request"' in response.headers["WWW-Authenticate"]


async def test_a_missing_scope_is_named(client: Client, issuer: TestIssuer) -> None:
    """403 with the challenge that says which scope to ask for."""
    async with client.get("/api/caller", headers=bearers(issuer.mint(scope="feedback:read"))) as response:
        assert (response.status, (await response.json())["code"]) == (403, "insufficient_scope")
        assert 'scope="feedback:write"' in response.headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("scope", "status"), [("feedback:read", 200), ("provenance:write", 200), ("feedback:write", 403), ("", 403)]
)
async def test_one_of_several_scopes_is_enough(scope: str, status: int, client: Client, issuer: TestIssuer) -> None:
    """Either scope opens the door; without any, the challenge names the first."""
    async with client.get("/api/reader", headers=bearers(issuer.mint(scope=scope))) as response:
        assert response.status == status
        assert ('scope="feedback:read"' in response.headers.get("WWW-Authenticate", "")) is (status == 403)


async def test_an_issuer_that_is_away_is_not_the_callers_fault(client: Client, issuer: TestIssuer) -> None:
    """503 with Retry-After, so that a client keeps its user signed in."""
    issuer.fail()
    async with client.get("/api/caller", headers=bearers(issuer.mint())) as response:
        assert (response.status, (await response.json())["code"]) == (503, "keys_unavailable")
        assert response.headers["Retry-After"] == "5"
