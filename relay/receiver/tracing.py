"""The receiver's part of a trace, for hosts that use OpenTelemetry. Imported only where a host hands a tracer over."""

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()


def traced(tracer: trace.Tracer) -> Middleware:
    """A span for each request, a child of the relay's attempt. It is the current one while the host's hooks run.

    Ids in a path or a body stay out of it, and so do callers.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = None if resource is None else resource.canonical
        with tracer.start_as_current_span(
            request.method if route is None else f"{request.method} {route}",
            context=_PROPAGATOR.extract(_carried(request)),
            kind=trace.SpanKind.SERVER,
            attributes={
                "http.request.method": request.method,
                "url.scheme": request.scheme,
                **({} if route is None else {"http.route": route}),
            },
            record_exception=False,  # its message may quote the request
            set_status_on_exception=False,
        ) as span:
            response = await handler(request)
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= 500:  # noqa: PLR2004 - the server's own errors
                span.set_attribute("error.type", str(response.status))
                span.set_status(trace.StatusCode.ERROR)
            return response

    return middleware


def _carried(request: web.Request) -> dict[str, str]:
    """The caller's span, unless it names several."""
    named = request.headers.getall("traceparent", [])
    return {"traceparent": named[0]} if len(named) == 1 else {}
