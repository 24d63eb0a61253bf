"""Server-sent events (WHATWG HTML, section 9.2): their framing, and a stream that ends quietly."""

import asyncio
import re
from contextlib import suppress
from types import TracebackType
from typing import Self

from aiohttp import web

from relay.http.problems import harden

KEEP_ALIVE_SECONDS = 15.0
"""How often an idle stream sends a comment: less than the minute after which proxies close a silent connection."""

_LINE_END = re.compile("\r\n|\r|\n")

_STREAMS = web.AppKey("event_streams", set["EventStream"])


def frame(data: str, *, event: str | None = None, id: str | None = None) -> bytes:  # noqa: A002 - the field's name
    """One event. Line ends within ``data`` become lines of their own, so that no text can begin another field."""
    lines = [f"{name}: {_single_line(value)}" for name, value in (("event", event), ("id", id)) if value is not None]
    lines.extend(f"data: {line}" for line in _LINE_END.split(data))
    return ("\n".join(lines) + "\n\n").encode()


def comment(text: str = "") -> bytes:
    """A line that clients ignore, which keeps the connection alive."""
    return f": {_single_line(text)}\n\n".encode()


def _single_line(value: str) -> str:
    if _LINE_END.search(value) or "\x00" in value:
        raise ValueError("an event's name, id or comment is one line without NUL")
    return value


def end_streams_with(app: web.Application) -> None:
    """Have the application end its open streams when it shuts down, instead of waiting for their readers to leave."""
    app[_STREAMS] = set()

    async def end_all(app: web.Application) -> None:
        for stream in app[_STREAMS]:
            stream.end()

    app.on_shutdown.append(end_all)


class EventStream:
    """An answer of type text/event-stream, as a context.

    The context is left quietly when the client goes away, when ``seconds`` are over (a stream ends when its token
    does), or at shutdown; the handler then returns ``response``.
    """

    def __init__(self, request: web.Request, *, seconds: float | None = None) -> None:
        self.response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        harden(self.response)  # before it is prepared, which the middleware never sees
        self.response.content_type = "text/event-stream"
        self.response.charset = "utf-8"
        self._request = request
        self._lifetime = asyncio.timeout(seconds)
        self._open = request.config_dict.get(_STREAMS, set())

    async def __aenter__(self) -> Self:
        await self.response.prepare(self._request)
        await self._lifetime.__aenter__()
        self._open.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._open.discard(self)
        try:
            await self._lifetime.__aexit__(kind, error, trace)
        except TimeoutError:
            pass
        else:
            if error is not None:
                return isinstance(error, ConnectionError)
        with suppress(ConnectionError):
            await self.response.write_eof()
        return True

    def end(self) -> None:
        """Leave the context at its next await."""
        if not self._lifetime.expired():
            self._lifetime.reschedule(0.0)

    async def send(self, data: str, *, event: str | None = None, id: str | None = None) -> None:  # noqa: A002
        """Send an event; waits while the reader is slow, and leaves the context when it has gone."""
        await self.response.write(frame(data, event=event, id=id))

    async def send_id(self, id: str) -> None:  # noqa: A002
        """Tell the reader where it stands, without an event."""
        await self.response.write(f"id: {_single_line(id)}\n\n".encode())

    async def keep_alive(self) -> None:
        """Send a comment, which also finds out whether the reader is still there."""
        await self.response.write(comment("keep-alive"))
