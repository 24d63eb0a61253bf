"""A collector of traces on a loopback port: decodes what an exporter sends by OpenTelemetry's own definitions."""

import asyncio
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan


@dataclass(frozen=True, slots=True)
class SpanSeen:
    """A span as it arrived, ids in hexadecimal."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    nanoseconds: int
    attributes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventSeen:
    """A log record that is an event."""

    name: str
    trace_id: str
    span_id: str
    attributes: dict[str, Any]


class OtlpCollector:
    """``spans`` and ``events`` are what came in; ``authorizations`` and ``paths`` how. ``answer`` makes its answers."""

    def __init__(self) -> None:
        self.spans: list[SpanSeen] = []
        self.events: list[EventSeen] = []
        self.raw = b""
        self.authorizations: set[str | None] = set()
        self.paths: list[str] = []
        self.answer: Callable[[], web.Response] = web.Response
        self._came = asyncio.Condition()
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0, auto_decompress=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def of_trace(self, trace_id: str) -> Sequence[SpanSeen]:
        return [span for span in self.spans if span.trace_id == trace_id]

    async def until(self, seen: Callable[[], object]) -> None:
        """Return once what came in is enough; the test's timeout bounds the wait."""
        async with self._came:
            await self._came.wait_for(lambda: bool(seen()))

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        async with self._came:
            self.raw += body
            self.paths.append(request.path)
            self.authorizations.add(request.headers.get("Authorization"))
            if request.path.endswith("/v1/traces"):
                self.spans += _spans(ExportTraceServiceRequest.FromString(body))
            elif request.path.endswith("/v1/logs"):
                self.events += _events(ExportLogsServiceRequest.FromString(body))
            self._came.notify_all()
        return self.answer()


def _spans(sent: ExportTraceServiceRequest) -> Iterator[SpanSeen]:
    for of_resource in sent.resource_spans:
        service = _attributes(of_resource.resource.attributes)["service.name"]
        for scope in of_resource.scope_spans:
            for span in scope.spans:
                yield SpanSeen(
                    service=service,
                    name=span.name,
                    kind=SentSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    failed=span.status.code == 2,
                    nanoseconds=span.end_time_unix_nano - span.start_time_unix_nano,
                    attributes=_attributes(span.attributes),
                )


def _events(sent: ExportLogsServiceRequest) -> Iterator[EventSeen]:
    for of_resource in sent.resource_logs:
        for scope in of_resource.scope_logs:
            for record in scope.log_records:
                yield EventSeen(
                    record.event_name, record.trace_id.hex(), record.span_id.hex(), _attributes(record.attributes)
                )


def _attributes(sent: Sequence[KeyValue]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in sent}
