"""The HTTP server: aiohttp's, with problem documents also for what never reaches the application.

A request that cannot be parsed, an unknown Expect header, or a failure outside the middleware is answered by aiohttp
itself: in text/plain, with the first hundred bytes of the header at fault in the answer and in the log. The header may
be a token. `RequestHandler.handle_error` is where that happens; it is not public, so aiohttp is pinned below its next
minor version.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import _ErrInfo
from typing_extensions import override

from relay.errors import Refusal
from relay.http.problems import problem_response, refusal_of
from relay.redaction import outline

MAX_LINE_BYTES = 8190
MAX_FIELD_BYTES = 16_384
"""Of one header, name and value. Twice what a token may have, so that one too long is a 401 like any other."""
KEEP_ALIVE_SECONDS = 75.0
"""How long a connection may idle, before its first request as well: aiohttp's default is an hour."""
LINGER_SECONDS = 5.0
"""How long an unread body is read and thrown away, so that its sender gets to see the refusal."""

Unrouted = Callable[[Refusal], None]
"""Told of each refusal that no middleware sees."""

_log = structlog.get_logger("relay.http")


class Runner(web.AppRunner):
    """Runs an application; `unrouted` is told of requests that were refused before they reached it."""

    def __init__(
        self, app: web.Application, *, unrouted: Unrouted = lambda _refusal: None, shutdown_timeout: float = 60.0
    ) -> None:
        super().__init__(
            app,
            shutdown_timeout=shutdown_timeout,
            access_log=None,  # telemetry writes the line of a request
            auto_decompress=False,  # a coding is refused, so nothing may be inflated before the refusal
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_FIELD_BYTES,
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
        )
        self._unrouted = unrouted

    @override
    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        return _Connections(server, self._unrouted)


class _Connections(web.Server):
    """The factory of connection handlers, made from aiohttp's own with everything it was configured with."""

    def __init__(self, server: web.Server, unrouted: Unrouted) -> None:
        super().__init__(
            _answering(server.request_handler, unrouted),
            request_factory=server.request_factory,
            handler_cancellation=server.handler_cancellation,
            loop=server._loop,  # noqa: SLF001 - the same server, made again
            **server._kwargs,  # noqa: SLF001
        )
        self.unrouted = unrouted

    @override
    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(web.RequestHandler):
    """One connection, whose own errors are answered like the application's."""

    __slots__ = ("_unrouted",)

    def __init__(self, manager: _Connections, **options: Any) -> None:  # noqa: ANN401 - aiohttp's own
        super().__init__(manager, **options)
        self._unrouted = manager.unrouted

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._messages and isinstance(self._messages[-1][0], _ErrInfo):
            self._break_off_bodies()

    def _break_off_bodies(self) -> None:
        """Let no handler wait for the rest of a body that broke off: aiohttp queues the error behind it for ever."""
        unread = [payload for _message, payload in self._messages]
        if self._current_request is not None:
            unread.append(self._current_request.content)
        for payload in unread:
            if not payload.is_eof():
                payload.set_exception(web.RequestPayloadError("the framing of the body is broken"))

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0 or isinstance(exc, ConnectionError):
            raise ConnectionResetError("nobody is there to be answered") from None
        refusal = self._refusal(exc)
        self._unrouted(refusal)
        response = problem_response(refusal)
        response.force_close()
        return response

    @override
    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Whatever aiohttp would log of a connection, without the messages, which quote requests."""
        error = kw.get("exc_info")
        if isinstance(error, web.RequestPayloadError):
            return  # the rest of a body whose framing was refused
        _log.error("connection_failed", **(outline(error) if isinstance(error, BaseException) else {}))

    def _refusal(self, error: BaseException | None) -> Refusal:
        if isinstance(error, LineTooLong):
            limit = error.args[1]
            if limit == self.max_line_size:
                return Refusal("uri_too_long", f"The target of a request may have {limit} bytes.")
            return Refusal("header_too_large", f"A header may have {limit} bytes, name and value together.")
        if isinstance(error, HttpProcessingError):
            if error.message.startswith("Too many headers"):
                return Refusal("header_too_large", f"A request may have {self.max_headers} headers.")
            return Refusal("malformed_request", "The request is not HTTP/1.1 as in RFC 9112.")
        return refusal_of(error if isinstance(error, Exception) else TimeoutError())


def _answering(handler: Any, unrouted: Unrouted) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:  # noqa: ANN401
    """``handler`` with a problem document for what aiohttp raises before any middleware runs: an unknown Expect."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPRedirection:
            raise
        except web.HTTPException as error:
            refusal = refusal_of(error)
            unrouted(refusal)
            return problem_response(refusal)
        return response

    return answer
