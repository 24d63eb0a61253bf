"""Which pages of other origins may read our answers."""

import pytest
from aiohttp import web

from relay.errors import Refusal
from tests.http.conftest import Edge, Serve
from tests.support.wire import request

WORKBENCH = "https://workbench.example.org"
PREFLIGHT = (f"Origin: {WORKBENCH}", "Access-Control-Request-Method: POST")


async def rate(_request: web.Request) -> web.Response:
    return web.Response(status=202, headers={"Location": "/x", "Vary": "Accept"})


async def refuse(_request: web.Request) -> web.Response:
    raise Refusal("unauthenticated", "Sign in.")


@pytest.fixture
async def edge(serve: Serve) -> Edge:
    return await serve(web.post("/rate", rate), web.get("/refuse", refuse), origins=[WORKBENCH])


async def test_a_preflight_is_answered_before_anything_else(edge: Edge) -> None:
    """An OPTIONS from a configured origin needs no token and no route: 204 with what is allowed, and for how long."""
    for path in ("/rate", "/nowhere"):
        answered = await edge.send(request("OPTIONS", path, *PREFLIGHT))
        assert answered.status == 204
        assert answered.headers["access-control-allow-origin"] == WORKBENCH
        assert "POST" in answered.headers["access-control-allow-methods"]
        allowed = answered.headers["access-control-allow-headers"].lower().split(", ")
        assert set(allowed) == {"authorization", "content-type", "prefer", "last-event-id", "traceparent"}
        assert int(answered.headers["access-control-max-age"]) > 0
        assert "access-control-allow-credentials" not in answered.headers
        assert answered.headers["vary"] == "Origin"


async def test_answers_and_problems_can_be_read(edge: Edge) -> None:
    """Successes, refusals and unknown paths are marked alike, or the page could not show what went wrong."""
    for method, path, status in (("POST", "/rate", 202), ("GET", "/refuse", 401), ("GET", "/nowhere", 404)):
        answered = await edge.send(request(method, path, f"Origin: {WORKBENCH}"))
        assert answered.status == status
        assert answered.headers["access-control-allow-origin"] == WORKBENCH
        exposed = answered.headers["access-control-expose-headers"]
        assert exposed == "Location, Retry-After, Preference-Applied, RateLimit, RateLimit-Policy"
        assert "Origin" in answered.headers["vary"]


async def test_vary_keeps_what_the_handler_said(edge: Edge) -> None:
    """Vary is added to, never replaced."""
    answered = await edge.send(request("POST", "/rate"))
    assert answered.headers["vary"] == "Accept, Origin"
    assert "access-control-allow-origin" not in answered.headers


@pytest.mark.parametrize(
    "origin",
    [
        "https://workbench.example.org.evil.example",
        "https://workbench.example.org:8443",
        "http://workbench.example.org",
        "https://WORKBENCH.example.org",
        "https://workbench.example.org/",
        "null",
        "*",
        "",
    ],
)
async def test_any_other_origin_is_told_nothing(edge: Edge, origin: str) -> None:
    """An origin matches as a whole or not at all; its preflight is an ordinary 405."""
    preflight = await edge.send(request("OPTIONS", "/rate", f"Origin: {origin}", "Access-Control-Request-Method: POST"))
    assert preflight.code == "method_not_allowed"
    answered = await edge.send(request("POST", "/rate", f"Origin: {origin}"))
    for one in (preflight, answered):
        assert not [name for name in one.headers if name.startswith("access-control-")]
        assert "Origin" in one.headers["vary"]


async def test_without_origins_there_is_no_cors(serve: Serve) -> None:
    """A relay that is configured for no page does not vary by origin."""
    answered = await (await serve(web.post("/rate", rate))).send(request("POST", "/rate", f"Origin: {WORKBENCH}"))
    assert answered.headers["vary"] == "Accept"
    assert "access-control-allow-origin" not in answered.headers
