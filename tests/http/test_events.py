"""Server-sent events: framing that no text can break, and streams that end quietly."""

import asyncio

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from relay.http.events import EventStream, comment, frame
from tests.http.conftest import Serve
from tests.support.wire import connected, parse_head, request


def parse(raw: bytes) -> list[dict[str, str]]:
    """Events as a browser reads them (WHATWG HTML section 9.2.6)."""
    events: list[dict[str, str]] = []
    fields: dict[str, str] = {}
    text = raw.decode().replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n")[:-1]:
        name, _, value = line.partition(":")
        if line == "":
            if fields:
                events.append(fields)
            fields = {}
        elif name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    assert not fields
    return events


def test_a_frame_has_event_id_and_data() -> None:
    """One event on the wire, fields in the order that the contract shows."""
    assert frame('{"a":1}', event="feedback", id="7") == b'event: feedback\nid: 7\ndata: {"a":1}\n\n'


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_breaks_out_of_its_event(text: str) -> None:
    """Whatever the data, a browser sees one event with that data, line ends unified."""
    unified = text.replace("\r\n", "\n").replace("\r", "\n")
    assert parse(frame(text, event="feedback", id="1")) == [{"event": "feedback", "id": "1", "data": unified}]


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x00b", "\r\n"])
def test_names_ids_and_comments_are_one_line(value: str) -> None:
    """A line end in a name or an id would begin another field, and NUL makes browsers ignore an id."""
    with pytest.raises(ValueError, match="one line"):
        frame("x", event=value)
    with pytest.raises(ValueError, match="one line"):
        frame("x", id=value)
    with pytest.raises(ValueError, match="one line"):
        comment(value)


def test_a_comment_is_no_event() -> None:
    """What keeps the connection alive is invisible to the page."""
    assert parse(comment("keep-alive") + frame("x")) == [{"data": "x"}]


async def _dechunked(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    return body


async def test_a_stream_ends_when_its_time_is_over(serve: Serve) -> None:
    """A stream lives as long as the token that opened it, then ends in good order."""

    async def handler(request: web.Request) -> web.StreamResponse:
        async with EventStream(request, seconds=0.05) as stream:
            await stream.send("first", event="feedback", id="1")
            await stream.keep_alive()
            await asyncio.Event().wait()
        return stream.response

    edge = await serve(web.get("/events", handler), origins=["https://w.example"])
    async with connected(edge.port) as (reader, writer):
        writer.write(request("GET", "/events", "Origin: https://w.example"))
        status, headers = parse_head(await reader.readuntil(b"\r\n\r\n"))
        body = await _dechunked(reader)
    assert status == 200
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert headers["access-control-allow-origin"] == "https://w.example"
    assert body == b"event: feedback\nid: 1\ndata: first\n\n: keep-alive\n\n"


async def test_a_handler_may_end_its_stream(serve: Serve) -> None:
    """Leaving the context ends the answer, and the connection can be used again."""

    async def handler(request: web.Request) -> web.StreamResponse:
        async with EventStream(request) as stream:
            await stream.send("only")
        return stream.response

    edge = await serve(web.get("/events", handler))
    async with connected(edge.port) as (reader, writer):
        for _turn in range(2):
            writer.write(request("GET", "/events"))
            await reader.readuntil(b"\r\n\r\n")
            assert await _dechunked(reader) == b"data: only\n\n"


async def test_a_reader_that_leaves_ends_the_stream_quietly(serve: Serve) -> None:
    """When the page is closed the handler comes to its end without an error."""
    left = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        async with EventStream(request) as stream:
            while True:
                await stream.keep_alive()
                await asyncio.sleep(0)
        left.set()
        return stream.response

    edge = await serve(web.get("/events", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(request("GET", "/events"))
        await reader.readuntil(b": keep-alive\n\n")
    async with asyncio.timeout(30):
        await left.wait()
    await edge.runner.cleanup()
    assert [line["status"] for line in edge.log.events("request")] == [200]
    assert not edge.log.events("request_failed")


async def test_a_shutdown_ends_open_streams(serve: Serve) -> None:
    """A server that stops does not wait for its readers to leave."""
    opened = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        async with EventStream(request) as stream:
            await stream.send("first")
            opened.set()
            await asyncio.Event().wait()
        return stream.response

    edge = await serve(web.get("/events", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(request("GET", "/events"))
        await opened.wait()
        await edge.runner.cleanup()
        received = await reader.read()
    assert received.endswith(b"data: first\n\n\r\n0\r\n\r\n")


async def test_a_failure_in_a_stream_is_logged(serve: Serve) -> None:
    """A mistake of ours within a stream is no quiet end."""

    async def handler(request: web.Request) -> web.StreamResponse:
        async with EventStream(request) as stream:
            await stream.send("first")
            raise RuntimeError
        return stream.response

    edge = await serve(web.get("/events", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(request("GET", "/events"))
        received = await reader.read()
    assert not received.endswith(b"0\r\n\r\n")
    assert len(edge.log.events("request_failed")) == 1
