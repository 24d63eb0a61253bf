"""Traces at a collector: one from the caller's request to the specialist's acknowledgement, and its evaluation."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import requests
from aiohttp import web
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from relay.config import load
from tests.support.gateway import Gateway, gateway, new_id, write_config
from tests.support.issuer import TestIssuer
from tests.support.otlp import OtlpCollector
from tests.support.receiving import ReceivingSpecialist
from tests.support.specialist import Specialist, acknowledge, answering, first

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
UUID = "7f9c24e8-3b12-4f6a-9a51-2d0c8f1b6e44"
COMMENT = "The second source is wrong."


@pytest.fixture
async def collector(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OtlpCollector]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
    # Nothing of these is asked or used.
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with OtlpCollector() as running:
        yield running


@asynccontextmanager
async def tracing_relay(
    directory: Path, database_url: str, collector: OtlpCollector, origin: str, more: str = ""
) -> AsyncIterator[Gateway]:
    telemetry = f'[telemetry]\ncollector = "{collector.url}"\n{more}'
    async with TestIssuer() as issuer:
        path = write_config(directory, database_url, issuer, {"literature": origin}, more=telemetry)
        async with gateway(load(path, {}), issuer) as relay:
            yield relay


@asynccontextmanager
async def receiving(directory: Path, collector: OtlpCollector) -> AsyncIterator[ReceivingSpecialist]:
    """A specialist that mounts the receiver and has an OpenTelemetry of its own."""
    provider = TracerProvider(resource=Resource.create({"service.name": "literature"}), shutdown_on_exit=False)
    session = requests.Session()
    session.trust_env = False
    exporter = OTLPSpanExporter(f"{collector.url}/v1/traces", session=session)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    async with ReceivingSpecialist(f"sqlite:///{directory}/literature.db", provider.get_tracer("literature")) as it:
        yield it
    await asyncio.to_thread(provider.shutdown)


async def test_one_trace_from_the_request_to_the_acknowledgement(
    tmp_path: Path, database_url: str, collector: OtlpCollector
):
    """The caller's span, the relay's request, its attempt and the specialist's span hang together; the saved rating
    is an event of the attempt, about the response that provenance names. Nobody and nothing they said is in it.
    """
    evidence = [{"kind": "tool", "id": "t"}, {"kind": "gen_ai.response.id", "id": "resp_42"}]
    async with (
        receiving(tmp_path, collector) as specialist,
        tracing_relay(tmp_path, database_url, collector, specialist.origin) as relay,
    ):
        await relay.record("private-task", evidence=evidence)
        answered = await relay.call(
            "POST",
            "/api/feedback",
            {"id": UUID, "taskId": "private-task", "rating": "down", "comment": COMMENT},
            token=relay.token("alice"),
            headers={"traceparent": PARENT, "Prefer": "wait=10"},
        )
        assert answered.status == 201
        await collector.until(lambda: len(collector.of_trace(TRACE)) == 3 and collector.events)
        address = f"{specialist.origin}/api/feedback"
    spans = {(span.service, span.kind): span for span in collector.of_trace(TRACE)}
    request = spans["feedback-relay", "server"]
    attempt = spans["feedback-relay", "client"]
    acknowledgement = spans["literature", "server"]
    assert (request.parent_id, attempt.parent_id, acknowledgement.parent_id) == (SPAN, request.span_id, attempt.span_id)
    assert (request.name, attempt.name) == ("POST /api/feedback", "POST /api/feedback")
    assert request.attributes == {
        "http.request.method": "POST",
        "http.route": "/api/feedback",
        "http.response.status_code": 201,
        "url.scheme": "http",
        "feedback_relay.client": "workbench",
    }
    assert attempt.attributes["http.response.status_code"] == 201
    assert attempt.attributes["url.full"] == address
    assert attempt.attributes["feedback_relay.state"] == "saved"
    assert acknowledgement.attributes["http.response.status_code"] == 201
    assert not any(span.failed for span in spans.values())
    assert request.nanoseconds > attempt.nanoseconds > 0
    [event] = collector.events
    assert (event.name, event.trace_id, event.span_id) == ("gen_ai.evaluation.result", TRACE, attempt.span_id)
    assert event.attributes == {
        "gen_ai.evaluation.name": "user_rating",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.score.label": "down",
        "gen_ai.response.id": "resp_42",
        "gen_ai.agent.id": "literature",
        "feedback_relay.submission.id": UUID,
    }
    for private in (COMMENT, "alice", "private-task", "ok_"):
        assert private.encode() not in collector.raw


async def test_every_attempt_is_a_span_of_the_same_trace(
    tmp_path: Path, sqlite_database_url: str, collector: OtlpCollector
):
    """A retry long after its request is its child too, and the specialist knows each attempt by a span of its own."""
    async with Specialist(behave=first(answering(503, {}), acknowledge)) as specialist:
        async with tracing_relay(tmp_path, sqlite_database_url, collector, specialist.origin) as relay:
            await relay.record("t1")
            submission = (await relay.rate("t1", wait="respond-async")).json["id"]
            await relay.until(submission, "saved")
            await collector.until(lambda: len([s for s in collector.spans if s.kind == "client"]) == 2)
        sent = [post.headers["traceparent"].split("-")[2] for post in specialist.posts]
    refused, saved = (next(span for span in collector.spans if span.span_id == span_id) for span_id in sent)
    [request] = [s for s in collector.spans if s.attributes.get("http.route") == "/api/feedback"]
    assert refused.parent_id == saved.parent_id == request.span_id
    assert (refused.failed, refused.attributes["error.type"]) == (True, "server_error")
    assert refused.attributes["feedback_relay.state"] == "pending"
    assert (saved.failed, saved.attributes["http.request.resend_count"]) == (False, 1)
    assert len(collector.events) == 1


async def test_who_begins_a_trace_decides_whether_it_is_recorded(
    tmp_path: Path, sqlite_database_url: str, collector: OtlpCollector
):
    """A caller whose flag says no leaves no span, and neither does a trace that begins here under a ratio of 0; each
    saved rating is an event all the same. With ``comments`` it has what the person wrote, and the token goes along.
    """
    (tmp_path / "token").write_text("collector-secret")
    (tmp_path / "token").chmod(0o600)
    more = 'sample_ratio = 0.0\ncomments = true\ntoken_file = "token"'
    async with (
        Specialist() as specialist,
        tracing_relay(tmp_path, sqlite_database_url, collector, specialist.origin, more) as relay,
    ):
        for task, headers in (("t1", {"traceparent": PARENT.removesuffix("1") + "0"}), ("t2", {})):
            await relay.record(task)
            body = {"id": new_id(), "taskId": task, "rating": "up", "comment": COMMENT}
            prefer = {"Prefer": "wait=10"}
            answered = await relay.call(
                "POST", "/api/feedback", body, token=relay.token(), headers={**headers, **prefer}
            )
            assert answered.status == 201
        await collector.until(lambda: len(collector.events) == 2)
        flags = [post.headers["traceparent"].split("-")[3] for post in specialist.posts]
    assert collector.spans == []
    assert flags == ["00", "00"]
    assert {event.attributes["gen_ai.evaluation.explanation"] for event in collector.events} == {COMMENT}
    assert {event.attributes["gen_ai.evaluation.score.value"] for event in collector.events} == {1.0}
    assert {event.trace_id for event in collector.events} > {TRACE}
    assert collector.authorizations == {"Bearer collector-secret"}


async def test_an_evaluation_stands_below_the_run_where_that_is_known(
    tmp_path: Path, database_url: str, collector: OtlpCollector
):
    """Where provenance names the span of the run, the event is in its trace; two of a kind name nothing."""
    run, response = f"00-{TRACE}-{SPAN}-01", "gen_ai.response.id"
    async with (
        Specialist() as specialist,
        tracing_relay(tmp_path, database_url, collector, specialist.origin) as relay,
    ):
        twice = [{"kind": response, "id": "resp_1"}, {"kind": response, "id": "resp_2"}]
        await relay.record("t1", evidence=[{"kind": "traceparent", "id": run}, *twice])
        assert (await relay.rate("t1")).status == 201
        await collector.until(lambda: collector.events)
    [event] = collector.events
    assert (event.trace_id, event.span_id) == (TRACE, SPAN)
    assert response not in event.attributes


async def test_a_collector_that_fails_is_nobodys_trouble(
    tmp_path: Path, sqlite_database_url: str, collector: OtlpCollector
):
    """It sends elsewhere, which is not followed, and the relay goes on saving and ends in order."""
    async with OtlpCollector() as elsewhere, Specialist() as specialist:
        headers = {"Location": f"{elsewhere.url}/v1/traces"}
        collector.answer = lambda: web.Response(status=307, headers=headers)
        async with tracing_relay(tmp_path, sqlite_database_url, collector, specialist.origin) as relay:
            await relay.record("t1")
            assert (await relay.rate("t1")).status == 201
            await collector.until(lambda: len(set(collector.paths)) == 2)
        assert elsewhere.paths == []


def test_nothing_is_loaded_where_no_collector_is_configured():
    """The extra may be missing, and costs nothing where it is not used."""
    program = (
        "import sys, relay.app, relay.processes, relay.receiver, relay.cli.program\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
