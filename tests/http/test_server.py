"""Requests that never reach the application get problem documents too, and leave no trace of their content."""

import asyncio
import logging

import pytest
from aiohttp import web

from relay.errors import Refusal
from relay.http.bodies import read_bytes
from relay.http.server import MAX_FIELD_BYTES, MAX_LINE_BYTES, Runner
from tests.http.conftest import Serve
from tests.support.logs import Log
from tests.support.wire import connected, read_answer, request, send

SECRET = b"token-of-alice-4711"
HOST = b"Host: relay.example\r\n"


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await read_bytes(request, max_bytes=1000))


MALFORMED = {
    "no request line": (SECRET + b"\r\n\r\n", 400),
    "a client of TLS": (b"\x16\x03\x01\x02\x00" + SECRET + b"\r\n\r\n", 400),
    "another version": (b"GET / HTTP/7.7\r\n" + HOST + b"X: " + SECRET + b"\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\nX: " + SECRET + b"\r\n\r\n", 400),
    "a header without a colon": (b"GET / HTTP/1.1\r\n" + HOST + SECRET + b"\r\n\r\n", 400),
    "a control character in a header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + SECRET + b"\x00\r\n\r\n", 400),
    "raw bytes in the target": (b"GET /\xff" + SECRET + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "an authority that cannot be": (b"GET http://[::" + SECRET + b"/ HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "a length that is no number": (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: " + SECRET + b"\r\n\r\n", 400),
    "two lengths": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n" + SECRET,
        400,
    ),
    "a length and chunks": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + SECRET,
        400,
    ),
    "chunks that are none": (
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + SECRET + b"\r\n",
        400,
    ),
    "a target too long": (b"GET /" + SECRET * 500 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "a header too long": (b"GET / HTTP/1.1\r\n" + HOST + b"Authorization: Bearer " + SECRET * 1000 + b"\r\n\r\n", 431),
    "a name too long": (b"GET / HTTP/1.1\r\n" + HOST + SECRET * 1000 + b": x\r\n\r\n", 431),
    "too many headers": (b"GET / HTTP/1.1\r\n" + HOST + (b"X: " + SECRET + b"\r\n") * 200 + b"\r\n", 431),
    "an unknown expectation": (b"POST / HTTP/1.1\r\n" + HOST + b"Expect: " + SECRET + b"\r\n\r\n", 417),
}


@pytest.mark.parametrize(("raw", "status"), MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_request_gets_a_problem_and_no_part_of_it_is_kept(
    serve: Serve, log: Log, raw: bytes, status: int
) -> None:
    """Whatever aiohttp cannot parse is answered with a problem document; neither answer nor log quote it."""
    edge = await serve(web.post("/", echo))
    answered = await edge.send(raw)
    assert answered.code
    assert answered.status == status
    assert SECRET not in answered.body
    assert SECRET.decode() not in log.text
    [line] = log.events("request")
    assert (line["status"], line["route"], line["method"]) == (status, "unmatched", "OTHER")
    assert f'feedback_relay_requests_total{{method="OTHER",route="unmatched",status="{status}"}} 1.0' in edge.counted


async def test_a_header_of_nine_kilobytes_reaches_the_application(serve: Serve) -> None:
    """A token longer than allowed is the verifier's to refuse, with the same 401 as any other defect."""

    async def length(request: web.Request) -> web.Response:
        return web.json_response(len(request.headers["Authorization"]))

    edge = await serve(web.get("/", length))
    answered = await edge.send(request("GET", "/", "Authorization: Bearer " + "x" * 9000))
    assert answered.json == 9007


async def test_the_longest_id_fits_into_a_target(serve: Serve) -> None:
    """Two ids of 256 characters, four bytes each, all escaped, are within the limits of the request line."""

    async def length(request: web.Request) -> web.Response:
        return web.json_response([len(part) for part in request.match_info.values()])

    edge = await serve(web.get("/api/provenance/tasks/{agent}/{task}", length))
    longest = "%F0%9F%98%80" * 256
    target = f"/api/provenance/tasks/{longest}/{longest}"
    assert len(target) < MAX_LINE_BYTES < MAX_FIELD_BYTES
    assert (await edge.send(request("GET", target))).json == [256, 256]


@pytest.mark.parametrize(
    ("begun", "rest"),
    [(b"3\r\nabc", b"XX secret"), (b"5\r\nab", b"cdefgh\r\n"), (b"", b"zz\r\n")],
    ids=["after a chunk", "within a chunk", "at the first chunk"],
)
async def test_chunks_that_break_off_later_do_not_hold_the_handler(serve: Serve, begun: bytes, rest: bytes) -> None:
    """A handler would wait for ever in aiohttp when the framing breaks in a later packet; it gets a 400."""
    waiting = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        waiting.set()
        return await echo(request)

    edge = await serve(web.post("/", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + begun)
        await waiting.wait()
        writer.write(rest)
        assert (await read_answer(reader)).code == "malformed_request"
        assert await reader.read() == b""


async def test_garbage_behind_a_request_does_not_spoil_its_answer(serve: Serve) -> None:
    """A whole request that is being handled is answered, its body unharmed, before the garbage behind it is refused."""
    begun = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        begun.set()
        while not request.protocol._messages:  # noqa: ASYNC110 - aiohttp tells nobody
            await asyncio.sleep(0)
        return await echo(request)

    edge = await serve(web.post("/", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(request("POST", "/", body=b"good"))
        await begun.wait()
        writer.write(SECRET + b"\r\n\r\n")
        assert (await read_answer(reader)).body == b"good"
        assert (await read_answer(reader)).code == "malformed_request"
        assert await reader.read() == b""


async def test_100_continue_is_granted(serve: Serve) -> None:
    """The one expectation of RFC 9110 section 10.1.1 works."""
    edge = await serve(web.post("/", echo))
    async with connected(edge.port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(b"ok")
        assert (await read_answer(reader)).body == b"ok"


async def test_an_unread_body_does_not_hide_the_refusal(serve: Serve) -> None:
    """The answer to a body over the cap arrives although the sender was still sending."""
    edge = await serve(web.post("/", echo))
    answered = await edge.send(request("POST", "/", body=b"x" * 1_000_000))
    assert answered.code == "body_too_large"


async def test_a_client_that_leaves_is_no_failure_of_ours(serve: Serve, log: Log) -> None:
    """When the client goes away before its answer, the request is logged as given up, and nothing as failed."""
    begun, finished = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        begun.set()
        try:
            return await echo(request)
        finally:
            finished.set()

    edge = await serve(web.post("/", handler))
    async with connected(edge.port) as (_reader, writer):
        writer.write(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 9\r\n\r\nabc")
        await begun.wait()
    await finished.wait()
    await edge.runner.cleanup()
    assert [line["status"] for line in log.events("request")] == [499]
    assert not log.events("request_failed")
    assert not log.events("connection_failed")


async def test_aiohttp_itself_logs_nothing_of_a_request(serve: Serve, log: Log) -> None:
    """No access log of aiohttp's doubles ours, whatever the level of its logger."""
    logging.getLogger("aiohttp.access").setLevel(logging.DEBUG)
    edge = await serve(web.post("/", echo))
    await edge.send(request("POST", "/", body=b"x"))
    assert [line["event"] for line in log.lines if line.get("logger", "").startswith("aiohttp")] == []
    assert len(log.events("request")) == 1


async def test_an_error_outside_the_middleware_is_a_problem_as_well(log: Log) -> None:
    """A failure while the answer is prepared, where no middleware is left, tells nothing but a reference."""

    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="never sent")

    async def fail_once(_request: web.Request, _response: web.StreamResponse) -> None:
        if failures:
            raise failures.pop()

    failures = [RuntimeError(SECRET.decode())]
    app = web.Application()
    app.router.add_get("/", handler)
    app.on_response_prepare.append(fail_once)
    refusals: list[Refusal] = []
    runner = Runner(app, unrouted=refusals.append)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with connected(runner.addresses[0][1]) as (reader, writer):
        writer.write(request("GET", "/"))
        received = await reader.read()
    await runner.cleanup()
    assert SECRET not in received
    assert SECRET.decode() not in log.text
    assert log.events("request_failed") or log.events("connection_failed")


async def test_an_error_without_any_middleware_is_a_problem_as_well(log: Log) -> None:
    """An application that forgot its middleware still tells nobody what broke, and is heard of."""

    async def handler(_request: web.Request) -> web.Response:
        raise RuntimeError(SECRET.decode())

    app = web.Application()
    app.router.add_get("/", handler)
    refusals: list[Refusal] = []
    runner = Runner(app, unrouted=refusals.append)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    answered = await send(runner.addresses[0][1], request("GET", "/"))
    await runner.cleanup()
    assert answered.code == "internal_error"
    assert [refusal.code for refusal in refusals] == ["internal_error"]
    assert SECRET not in answered.body
    assert SECRET.decode() not in log.text
