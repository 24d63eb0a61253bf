"""The way to a collector: OpenTelemetry's SDK, over OTLP and HTTP, from threads of its own.

Imported only where a collector is configured. What is sent goes to that collector and nowhere else: no redirect is
followed, and proxies and credentials of the environment are not used. A collector that is away costs what is recorded
meanwhile beyond a bounded queue, and nothing else.
"""

import asyncio
from dataclasses import dataclass, field
from threading import Thread
from typing import Final

import requests
import structlog
from opentelemetry import trace
from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from typing_extensions import override

from relay import __version__
from relay.redaction import outline
from relay.telemetry.spans import Event, Span

_log = structlog.get_logger("relay.telemetry")

SCOPE: Final = "feedback_relay"
TIMEOUT_SECONDS: Final = 5.0
"""Of one export, repeats included; also how long the end of the process may take longer."""

_KINDS: Final = {"server": trace.SpanKind.SERVER, "client": trace.SpanKind.CLIENT}
_BILLION: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the collector is: its base URL, its own authorities, and what it wants to be shown."""

    url: str
    ca_file: str | None = None
    token: str | None = field(default=None, repr=False)


class _Given(IdGenerator):
    """Ids that were made before: a span's id stands in headers and in the database long before the span ends."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = 0

    @override
    def generate_trace_id(self) -> int:
        return self.trace_id

    @override
    def generate_span_id(self) -> int:
        return self.span_id

    @override
    def is_trace_id_random(self) -> bool:
        return False


class Collector:
    """Sends spans and events in batches. For one thread: ids are handed to the SDK from call to call."""

    def __init__(self, address: Address) -> None:
        resource = Resource.create({"service.name": "feedback-relay", "service.version": __version__})
        self._ids = _Given()
        self._traces = TracerProvider(
            sampler=ALWAYS_ON, resource=resource, id_generator=self._ids, shutdown_on_exit=False
        )
        self._traces.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(
                    f"{address.url}/v1/traces",
                    certificate_file=address.ca_file,
                    headers=_headers(address),
                    timeout=TIMEOUT_SECONDS,
                    compression=Compression.Gzip,
                    session=_session(),
                )
            )
        )
        self._logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(
            BatchLogRecordProcessor(
                OTLPLogExporter(
                    f"{address.url}/v1/logs",
                    certificate_file=address.ca_file,
                    headers=_headers(address),
                    timeout=TIMEOUT_SECONDS,
                    compression=Compression.Gzip,
                    session=_session(),
                )
            )
        )
        self._tracer = self._traces.get_tracer(SCOPE, __version__)
        self._logger = self._logs.get_logger(SCOPE, __version__)

    def record(self, span: Span) -> None:
        """Queue a span that has ended. Never raises: what is recorded must not fail for that."""
        try:
            self._record(span)
        except Exception as error:  # noqa: BLE001 - whatever the SDK finds wrong
            _log.warning("span_not_recorded", **outline(error))

    def _record(self, span: Span) -> None:
        context = span.context
        self._ids.trace_id, self._ids.span_id = int(context.trace_id, 16), int(context.span_id, 16)
        parent = None
        if context.parent_id is not None:
            parent = _within(context.trace_id, context.parent_id, sampled=True)
        recorded = self._tracer.start_span(
            span.name,
            # An empty context, never the thread's own.
            context=Context() if parent is None else parent,
            kind=_KINDS[span.kind],
            attributes=span.attributes,
            start_time=round(span.started * _BILLION),
        )
        if span.failed:
            recorded.set_status(trace.StatusCode.ERROR)
        recorded.end(round((span.started + span.seconds) * _BILLION))

    def tell(self, event: Event) -> None:
        """Queue an event. It belongs to the span that its context names. Never raises."""
        try:
            self._logger.emit(
                timestamp=round(event.at * _BILLION),
                context=_within(event.context.trace_id, event.context.span_id, sampled=event.context.sampled),
                severity_number=SeverityNumber.INFO,
                event_name=event.name,
                attributes=event.attributes,
            )
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("event_not_told", **outline(error))

    async def close(self) -> None:
        """Send what is queued, as far as the time allows: the SDK would give a silent collector half a minute."""
        endings = [Thread(target=each.shutdown, daemon=True) for each in (self._traces, self._logs)]
        for ending in endings:
            ending.start()
        await asyncio.gather(*(asyncio.to_thread(ending.join, TIMEOUT_SECONDS) for ending in endings))


def _within(trace_id: str, span_id: str, *, sampled: bool) -> Context:
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if sampled else trace.TraceFlags.DEFAULT)
    context = trace.SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(context))


def _headers(address: Address) -> dict[str, str]:
    return {} if address.token is None else {"Authorization": f"Bearer {address.token}"}


def _session() -> requests.Session:
    """Without the environment's proxies, authorities and .netrc."""
    session = requests.Session()
    session.trust_env = False
    return session
