"""One log line and one count for every request, whoever answered it."""

from asyncio import CancelledError

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.clock import Clock
from relay.errors import Refusal
from relay.http.problems import PROBLEM
from relay.identity.authentication import PRINCIPAL
from relay.telemetry.logs import RequestLines
from relay.telemetry.metrics import Metrics
from relay.telemetry.spans import Span, Tracing
from relay.telemetry.traces import TraceContext

TRACE = web.RequestKey("trace", TraceContext)
"""The span of a request, for what is done on its behalf."""

CLIENT_CLOSED_REQUEST = 499
"""No status of HTTP: the caller left before the answer."""

UNMATCHED = "unmatched"
UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})
"""What monitoring asks for every few seconds."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observation:
    """Watches requests from outside all other middleware, and is told of those that reach none (`Runner`).

    Made after logging is configured.
    """

    def __init__(self, metrics: Metrics, clock: Clock, tracing: Tracing | None = None) -> None:
        """``tracing``: where a collector is told of requests."""
        self._tracing = tracing
        self._begin = None if tracing is None else tracing.begin
        self._metrics = metrics
        self._clock = clock
        self._log = structlog.get_logger("relay.http")
        self._lines = RequestLines("relay.http", clock)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Join or begin a trace, and write the line of the request when its answer is there or given up."""
        started = self._clock.monotonic()
        trace = TraceContext.continued(request.headers.getall("traceparent", ()), self._begin)
        request[TRACE] = trace
        structlog.contextvars.bind_contextvars(request_id=trace.span_id, trace_id=trace.trace_id)
        status = 500
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as redirection:
            status = redirection.status
            raise
        except (ConnectionError, CancelledError):
            status = 500 if PROBLEM in request else CLIENT_CLOSED_REQUEST
            raise
        else:
            return response
        finally:
            self._write(request, trace, status, self._clock.monotonic() - started)

    def unrouted(self, refusal: Refusal) -> None:
        """The line of a request that could not be parsed, or that the server refused by itself."""
        self._metrics.request(route=UNMATCHED, method="OTHER", status=refusal.status, seconds=0.0)
        self._log.info("request", method="OTHER", route=UNMATCHED, status=refusal.status, code=refusal.code)

    def _write(self, request: web.Request, trace: TraceContext, status: int, seconds: float) -> None:
        method = request.method if request.method in _METHODS else "OTHER"
        route = route_template(request)
        self._metrics.request(route=route, method=method, status=status, seconds=seconds)
        values = {"method": method, "route": route, "status": status, "duration_ms": round(seconds * 1000, 1)}
        caller = request.get(PRINCIPAL)
        if caller is not None:
            # The client, never the subject: a log says which program called, not which person.
            values["client"] = caller.client
        problem = request.get(PROBLEM)
        if problem is not None:
            values["code"] = problem
        self._lines.write(trace, values)
        if self._tracing is not None and trace.sampled and route not in UNTRACED:
            self._tracing.record(_span(request, trace, status, ended=self._clock.unix(), seconds=seconds))


def _span(request: web.Request, trace: TraceContext, status: int, *, ended: float, seconds: float) -> Span:
    """By the template of the route, as everywhere: a path holds the ids of people's things."""
    method = request.method if request.method in _METHODS else "_OTHER"
    route, caller, code = route_template(request), request.get(PRINCIPAL), request.get(PROBLEM)
    failed = status >= 500  # noqa: PLR2004 - the server's own errors
    optional = {
        "http.route": None if route == UNMATCHED else route,
        "error.type": (code or str(status)) if failed else None,
        "feedback_relay.code": code,
        "feedback_relay.client": None if caller is None else caller.client,
    }
    return Span(
        name=("HTTP" if method == "_OTHER" else method) + ("" if route == UNMATCHED else f" {route}"),
        kind="server",
        context=trace,
        started=ended - seconds,
        seconds=seconds,
        attributes={
            "http.request.method": method,
            "url.scheme": request.scheme,
            "http.response.status_code": status,
            **{name: value for name, value in optional.items() if value is not None},
        },
        failed=failed,
    )


def route_template(request: web.Request) -> str:
    """The route's path with the names of its variables; nothing of the path that was asked for."""
    resource = request.match_info.route.resource
    return UNMATCHED if resource is None else resource.canonical
