"""One line and one count for every request."""

import asyncio

import pytest
import structlog
from aiohttp import web

from relay.errors import Refusal
from relay.http.observation import TRACE
from relay.http.parameters import segment
from relay.identity.authentication import PRINCIPAL
from relay.identity.model import Principal
from tests.http.conftest import Edge, Serve
from tests.support.wire import connected, request

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SUBJECT = "alice-4711"


async def show(request: web.Request) -> web.Response:
    request[PRINCIPAL] = Principal(
        kind="human",
        issuer="https://login.example.org",
        client="workbench",
        subject=SUBJECT,
        tenant="acme",
        scopes=frozenset(),
        expires_at=0,
        token=SUBJECT,
    )
    structlog.get_logger("relay.test").info("within")
    return web.json_response(request[TRACE].traceparent)


async def refuse(_request: web.Request) -> web.Response:
    raise Refusal("task_not_found", f"No task of {SUBJECT}.")


@pytest.fixture
async def edge(serve: Serve) -> Edge:
    return await serve(web.get(f"/tasks/{segment('id')}", show), web.get("/refuse", refuse))


async def test_a_request_is_one_line(edge: Edge) -> None:
    """The line has the route's template, the status, the time, the client and the trace; nothing of the request."""
    answered = await edge.send(
        request("GET", f"/tasks/{SUBJECT}?q={SUBJECT}", f"Authorization: Bearer {SUBJECT}", f"traceparent: {PARENT}")
    )
    [line] = edge.log.events("request")
    trace_id, span_id = answered.json.split("-")[1:3]
    assert line.pop("duration_ms") >= 0
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request",
        "logger": "relay.http",
        "level": "info",
        "method": "GET",
        "route": "/tasks/{id}",
        "status": 200,
        "client": "workbench",
        "request_id": span_id,
        "trace_id": trace_id,
    }
    assert SUBJECT not in edge.log.text


async def test_a_trace_goes_on(edge: Edge) -> None:
    """The caller's trace is joined with a span of our own, and a new one begins where there is none."""
    joined = (await edge.send(request("GET", "/tasks/1", f"traceparent: {PARENT}"))).json
    assert joined.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert joined.endswith("-01")
    assert joined != PARENT
    fresh = [(await edge.send(request("GET", "/tasks/1"))).json for _request in range(2)]
    assert len({trace.split("-")[1] for trace in (*fresh, PARENT)}) == 3


async def test_lines_within_a_request_carry_its_trace(edge: Edge) -> None:
    """Whatever is logged while a request is handled can be joined to its line, and to no other."""
    async with connected(edge.port) as (reader, writer):
        for _turn in range(2):
            writer.write(request("GET", "/tasks/1"))
            await reader.readuntil(b"\r\n\r\n")
    ids = [line["request_id"] for line in edge.log.events("within")]
    assert ids == [line["request_id"] for line in edge.log.events("request")]
    assert len(set(ids)) == 2


async def test_a_refusal_is_logged_by_its_code(edge: Edge) -> None:
    """The code tells an operator what was refused; the detail, which may name things, stays out."""
    await edge.send(request("GET", "/refuse"))
    [line] = edge.log.events("request")
    assert (line["status"], line["code"]) == (404, "task_not_found")
    assert SUBJECT not in edge.log.text


@pytest.mark.parametrize(
    ("method", "path", "route", "logged"),
    [
        ("GET", "/nowhere/at/all", "unmatched", "GET"),
        ("PROPFIND", "/tasks/1", "unmatched", "OTHER"),
        ("POST", "/tasks/1", "unmatched", "POST"),
    ],
)
async def test_labels_are_bounded(edge: Edge, method: str, path: str, route: str, logged: str) -> None:
    """Neither a path nor a method that a caller makes up becomes a label."""
    await edge.send(request(method, path))
    [line] = edge.log.events("request")
    assert (line["route"], line["method"]) == (route, logged)
    assert "nowhere" not in edge.counted
    assert "PROPFIND" not in edge.counted


async def test_requests_are_counted(edge: Edge) -> None:
    """Counts and durations stand by route, method and status."""
    for target in ("/tasks/1", "/tasks/2", "/refuse"):
        await edge.send(request("GET", target))
    assert 'feedback_relay_requests_total{method="GET",route="/tasks/{id}",status="200"} 2.0' in edge.counted
    assert 'feedback_relay_requests_total{method="GET",route="/refuse",status="404"} 1.0' in edge.counted
    assert 'feedback_relay_request_duration_seconds_count{method="GET",route="/tasks/{id}"} 2.0' in edge.counted


async def test_a_cancelled_request_is_still_a_line(serve: Serve) -> None:
    """A request that a shutdown cancels is written as given up."""
    begun = asyncio.Event()

    async def handler(_request: web.Request) -> web.Response:
        begun.set()
        raise asyncio.CancelledError

    edge = await serve(web.get("/", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(request("GET", "/"))
        await begun.wait()
        assert await reader.read() == b""
    assert [line["status"] for line in edge.log.events("request")] == [499]


async def test_a_redirect_is_a_line(serve: Serve) -> None:
    """A redirection that passes as an exception is logged with its status."""

    async def handler(_request: web.Request) -> web.Response:
        raise web.HTTPFound("/elsewhere")

    edge = await serve(web.get("/", handler))
    await edge.send(request("GET", "/"))
    assert [line["status"] for line in edge.log.events("request")] == [302]
