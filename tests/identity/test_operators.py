"""Who may operate the relay, over real HTTP with real tokens."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp import AiohttpClient

from relay.http import problems
from relay.identity.authentication import OPERATORS, VERIFIER, authorize, authorize_any, authorize_operator
from relay.identity.operators import Operators
from tests.conftest import TurnableClock
from tests.identity.conftest import Gate
from tests.support.issuer import TestIssuer

Served = Callable[..., Awaitable[TestClient[web.Request, web.Application]]]

CHALLENGE = 'Bearer realm="feedback-relay", error="insufficient_user_authentication"'


async def read(request: web.Request) -> web.Response:
    return web.Response(text=(await authorize_operator(request, "operator:read")).tenant)


async def administer(request: web.Request) -> web.Response:
    return web.Response(text=(await authorize_operator(request, "registry:admin")).tenant)


async def plainly(request: web.Request) -> web.Response:
    return web.Response(text=(await authorize(request, "registry:admin")).tenant)


async def either(request: web.Request) -> web.Response:
    return web.Response(text=(await authorize_any(request, "operator:read", "feedback:read")).tenant)


@pytest.fixture
def served(gate: Gate, clock: TurnableClock, aiohttp_client: AiohttpClient) -> Served:
    """Starts a server whose operators have to meet these rules; None: there are no rules."""

    async def serve(rules: dict[str, Any] | None) -> TestClient[web.Request, web.Application]:
        app = web.Application(middlewares=[problems.middleware])
        for path, handler in (("/read", read), ("/admin", administer), ("/plain", plainly), ("/either", either)):
            app.router.add_get(path, handler)
        app[VERIFIER] = gate.verifier
        if rules is not None:
            app[OPERATORS] = Operators(clock=clock, **rules)
        return await aiohttp_client(app)

    return serve


async def asked(client: TestClient[web.Request, web.Application], path: str, token: str) -> tuple[int, str, str]:
    """The status, the problem's code, and the challenge."""
    async with client.get(path, headers={"Authorization": f"Bearer {token}"}) as answer:
        body = await answer.json() if answer.content_type.endswith("json") else {}
        return answer.status, body.get("code", ""), answer.headers.get("WWW-Authenticate", "")


async def test_a_person_with_the_scope_operates(served: Served, issuer: TestIssuer):
    """Without further rules the scope in a person's token is enough; a machine's is not, nor is another scope."""
    client = await served({})
    assert (await asked(client, "/read", issuer.mint(scope="operator:read")))[0] == 200
    machine = await asked(client, "/read", issuer.mint_machine(scope="operator:read"))
    assert machine[:2] == (403, "insufficient_scope")
    assert (await asked(client, "/read", issuer.mint(scope="operator:write")))[:2] == (403, "insufficient_scope")


@pytest.mark.parametrize("path", ["/admin", "/plain"])
async def test_administrators_come_from_named_issuers(served: Served, issuer: TestIssuer, path: str):
    """By default of no issuer; whichever way a route asks for the scope."""
    token = issuer.mint(scope="registry:admin operator:read")
    closed = await served({})
    status, code, challenge = await asked(closed, path, token)
    assert (status, code) == (403, "insufficient_scope")
    assert 'scope="registry:admin"' in challenge
    assert (await asked(closed, "/read", token))[0] == 200
    assert (await asked(await served({"admin_issuers": ["https://other.example.org"]}), path, token))[0] == 403
    assert (await asked(await served({"admin_issuers": [issuer.url]}), path, token))[0] == 200


async def test_an_old_sign_in_is_sent_to_sign_in_again(served: Served, issuer: TestIssuer, clock: TurnableClock):
    """RFC 9470: 401 with the age that is asked for. The age is that of the moment, not of the token's verification."""
    client = await served({"max_age_seconds": 200})
    token = issuer.mint(scope="operator:read", auth_time=int(clock.unix()) - 100)
    assert (await asked(client, "/read", token))[0] == 200
    clock.turn(100)
    assert (await asked(client, "/read", token))[0] == 200
    clock.turn(1)
    challenge = f'{CHALLENGE}, max_age="200"'
    assert await asked(client, "/read", token) == (401, "insufficient_user_authentication", challenge)


@pytest.mark.parametrize("auth_time", [None, "now", True, -1, 1e300, 4_000_000_000])
async def test_a_sign_in_at_no_known_time_is_not_recent(served: Served, issuer: TestIssuer, auth_time: object):
    """A claim that is missing, no time, or in the future does not count; the token is good for everything else."""
    client = await served({"max_age_seconds": 60})
    token = issuer.mint(scope="operator:read feedback:read", auth_time=auth_time)
    assert (await asked(client, "/read", token))[:2] == (401, "insufficient_user_authentication")
    assert (await asked(client, "/either", token))[0] == 200


@pytest.mark.parametrize("acr", [None, "pwd", "", 2, ["mfa"], "mfa phishing-resistant"])
async def test_a_weak_sign_in_is_told_what_is_accepted(served: Served, issuer: TestIssuer, acr: object):
    """The challenge lists the accepted kinds, the preferred first; only one of them, exactly, will do."""
    client = await served({"acr_values": ["phishing-resistant", "mfa"]})
    refused = await asked(client, "/read", issuer.mint(scope="operator:read", acr=acr))
    assert refused == (401, "insufficient_user_authentication", f'{CHALLENGE}, acr_values="phishing-resistant mfa"')
    assert (await asked(client, "/read", issuer.mint(scope="operator:read", acr="mfa")))[0] == 200


async def test_both_are_asked_for_at_once(served: Served, issuer: TestIssuer, clock: TurnableClock):
    """The new token has to meet both, so that the person signs in again once."""
    client = await served({"acr_values": ["mfa"], "max_age_seconds": 60})
    now = int(clock.unix())
    for claims in ({"acr": "mfa", "auth_time": now - 61}, {"acr": "pwd", "auth_time": now}):
        _, _, challenge = await asked(client, "/read", issuer.mint(scope="operator:read", **claims))
        assert challenge == f'{CHALLENGE}, acr_values="mfa", max_age="60"'
    assert (await asked(client, "/read", issuer.mint(scope="operator:read", acr="mfa", auth_time=now)))[0] == 200


async def test_the_scope_goes_before_the_sign_in(served: Served, issuer: TestIssuer):
    """Nobody signs in again only to be told that they lack the scope."""
    client = await served({"acr_values": ["mfa"]})
    assert (await asked(client, "/read", issuer.mint(scope="feedback:read")))[:2] == (403, "insufficient_scope")
    assert (await asked(client, "/admin", issuer.mint(scope="registry:admin")))[:2] == (403, "insufficient_scope")


async def test_the_rules_are_for_operators_only(served: Served, issuer: TestIssuer):
    """Where another scope is enough, nobody has to sign in again; where it is the operator's, they have to."""
    client = await served({"acr_values": ["mfa"]})
    assert (await asked(client, "/either", issuer.mint(scope="operator:read feedback:read")))[0] == 200
    only = await asked(client, "/either", issuer.mint(scope="operator:read"))
    assert only[:2] == (401, "insufficient_user_authentication")


async def test_without_rules_nobody_operates(served: Served, issuer: TestIssuer):
    """An application that forgot the rules fails; it does not let everyone in."""
    client = await served(None)
    assert (await asked(client, "/read", issuer.mint(scope="operator:read")))[:2] == (500, "internal_error")
