"""The Big List of Naughty Strings where the API has text: taken as it is, or refused in the documented way.

Every answer is held against the OpenAPI document by the caller that the tests share, and each test names the statuses
that are right: none of them is 5xx. A comment is tried with the whole list, every other place with a quarter of it,
each with another one, and with all of our own texts.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from relay.http.preferences import MAX_WAIT
from tests.attacks.naughty import STRINGS, share
from tests.support.gateway import Gateway, new_id
from tests.support.wire import send

HTTP_FORBIDS = frozenset(map(chr, range(32))) - {"\t"} | {"\x7f"}
"""RFC 9110 section 5.5: no field value has them, and a client library refuses to send them; they are sent by hand."""

Body = dict[str, Any]


def rating(**fields: object) -> Body:
    return {"id": new_id(), "taskId": "open", "rating": "up", "agent": "literature", **fields}


def record(**fields: object) -> Body:
    words = {"conversationId": "c", "answerId": "a", "role": "specialist", "status": "completed", "ranAs": "client"}
    return {**words, **fields}


@pytest.mark.parametrize("field", ["id", "taskId", "rating", "comment", "agent", None])
async def test_in_a_rating(field: str | None, gateway: Gateway) -> None:
    """Only a comment may be any text; it is then stored code point by code point. Nothing else is ever stored."""
    machine = gateway.machine
    for number, text in enumerate(share(str(field))):
        if field == "comment" and number % 10 == 0:
            await gateway.record(f"open-{number // 10}", sub=None)
        body = rating(**{field or text: text, **({"taskId": f"open-{number}"} if field == "comment" else {})})
        answered = await gateway.call("POST", "/api/feedback", body, token=machine, headers={"Prefer": "respond-async"})
        assert 400 <= answered.status < 500 or (field, answered.status) == ("comment", 202), ascii(text)
    stored = await gateway.rows("SELECT count(*) AS ratings FROM submissions")
    assert (stored[0]["ratings"] > 0) is (field == "comment")


async def test_comments_come_back_as_they_were_sent(gateway: Gateway) -> None:
    """Neither trimmed, normalised nor escaped: what is stored and shown is what the person wrote."""
    machine = gateway.machine
    for number, text in enumerate(STRINGS):
        await gateway.record(f"t{number}", sub=None)
        body = rating(taskId=f"t{number}", comment=text)
        answered = await gateway.call("POST", "/api/feedback", body, token=machine, headers={"Prefer": "wait=0"})
        if "\x00" in text:
            assert (answered.status, answered.code) == (400, "malformed_json")
            continue
        assert answered.status == 202, ascii(text)
        shown = await gateway.call("GET", f"/api/feedback/{body['id']}", token=machine)
        assert shown.json["comment"] == (text or None)


PLACES: dict[str, Callable[[str], Body]] = {
    **{
        name: (lambda text, name=name: record(**{name: text}))
        for name in ("conversationId", "answerId", "role", "status", "ranAs", "parentTaskId", "runId")
    },
    "subject": lambda text: record(subject=text),
    "subjectIssuer": lambda text: record(subject="alice", subjectIssuer=text),
    "evidence kind": lambda text: record(evidence=[{"kind": text, "id": "x"}]),
    "evidence id": lambda text: record(evidence=[{"kind": "x", "id": text}]),
    "evidence name": lambda text: record(evidence=[{"kind": "x", "id": "x", text: text}]),
    "unknown": lambda text: record(**{text: text}),
}
FREE = {"conversationId", "answerId", "parentTaskId", "runId", "subject", "evidence kind", "evidence id"}
"""Places where an id may be any text that identifies something; everywhere else a few words count."""


@pytest.mark.parametrize("place", PLACES)
async def test_in_a_record_of_provenance(place: str, gateway: Gateway) -> None:
    """Ids are kept code point by code point or refused; words that are not ours, and unknown fields, never pass."""
    machine = gateway.machine
    for number, text in enumerate(share(place)):
        path = f"/api/provenance/tasks/literature/t{number}"
        answered = await gateway.call("PUT", path, PLACES[place](text), token=machine)
        assert answered.status in ({201, 400, 403, 409, 422} if place in FREE else {400, 403, 422}), ascii(text)
        if answered.status == 201 and place in answered.json:
            assert answered.json[place] == text


Paths = Callable[[str], tuple[str, str]]

SEGMENTS: dict[str, Paths] = {
    "agent": lambda text: ("PUT", f"/api/provenance/tasks/{text}/t"),
    "task": lambda text: ("PUT", f"/api/provenance/tasks/literature/{text}"),
    "answer": lambda text: ("GET", f"/api/answers/{text}/targets"),
    "conversation": lambda text: ("GET", f"/api/conversations/{text}/targets"),
    "submission": lambda text: ("GET", f"/api/feedback/{text}"),
    "submission to retry": lambda text: ("POST", f"/api/feedback/{text}/retry"),
    "anything": lambda text: ("GET", f"/{text}"),
}


@pytest.mark.parametrize("segment", SEGMENTS)
async def test_in_a_path(segment: str, gateway: Gateway) -> None:
    """One segment, percent-encoded, is one id: nothing in it climbs, parts or ends the path."""
    machine = gateway.machine
    await gateway.call("PUT", "/api/provenance/tasks/literature/known", record(), token=machine)
    for text in share(segment):
        method, path = SEGMENTS[segment](quote(text, safe=""))
        if "//" in path or text in {"feedback", "healthz", "readyz", "metrics"}:
            continue
        body = record() if method == "PUT" else None
        answered = await gateway.call(method, path, body, token=machine)
        assert 400 <= answered.status < 500 or (segment, answered.status) == ("task", 201), ascii(text)
        if answered.status == 201:
            assert answered.json["taskId"] == text


@pytest.mark.parametrize("name", ["limit", "cursor", "state", "agent", "taskId", None])
async def test_in_a_query(name: str | None, gateway: Gateway) -> None:
    """A parameter is a value that the document allows, or 400 with its name; a filter that fits nothing is empty."""
    machine = gateway.machine
    for text in share(str(name)):
        value = quote(text, safe="")
        answered = await gateway.call("GET", f"/api/feedback?{name or value}={value}", token=machine)
        filters = name in {"agent", "taskId"} or (name == "limit" and is_limit(text))
        assert answered.status == 400 or (filters and answered.json["items"] == []), ascii(text)
        if answered.status == 400 and name is not None and "\x00" not in text:
            assert answered.json["parameter"] == name


def is_limit(text: str) -> bool:
    """ASCII digits, zeros in front too."""
    return text.isascii() and text.isdigit() and len(text) <= 18 and 1 <= int(text) <= 100


def sendable(text: str) -> bool:
    return HTTP_FORBIDS.isdisjoint(text)


@pytest.mark.parametrize(
    "header", ["Prefer", "Idempotency-Key", "traceparent", "Last-Event-ID", "X-Request-Id", "Origin"]
)
async def test_in_a_header_of_a_rating(header: str, gateway: Gateway) -> None:
    """Headers of a rating change at most how long its answer waits: the task is still not there."""
    machine = gateway.machine
    for text in filter(sendable, share(header)):
        answered = await gateway.call("POST", "/api/feedback", rating(), token=machine, headers={header: text})
        assert (answered.status, answered.code) in {(404, "task_not_found"), (400, "malformed_request")}, ascii(text)
        if header == "Prefer" and text.isascii() and text.strip().lower() == text and text.startswith("wait="):
            digits = text.removeprefix("wait=")
            assert (answered.status == 404) is (digits.isdigit() and int(digits[:20]) <= MAX_WAIT)


async def test_as_the_last_event(gateway: Gateway) -> None:
    """A stream is resumed after what this relay issued to this caller, and after nothing else."""
    machine = gateway.machine
    for text in filter(sendable, share("event")):
        if text.strip(" \t"):
            headers = {"Last-Event-ID": text}
            answered = await gateway.call("GET", "/api/feedback/events", token=machine, headers=headers)
            assert answered.status == 400, ascii(text)


@pytest.mark.parametrize("where", ["token", "value"])
async def test_in_the_authorization_header(where: str, gateway: Gateway) -> None:
    """Nobody gets in with any of these, and nobody is told more than that."""
    bodies = set()
    for text in filter(sendable, share(where)):
        value = text if where == "value" else f"Bearer {text}"
        answered = await gateway.call("GET", "/api/feedback", headers={"Authorization": value})
        assert answered.status in {400, 401}, ascii(text)
        bodies.add((answered.status, answered.body))
    assert len({body for status, body in bodies if status == 401}) == 1


@pytest.mark.parametrize("header", ["Authorization", "Prefer", "Idempotency-Key", "traceparent", "Last-Event-ID"])
async def test_controls_in_a_header_by_hand(header: str, gateway: Gateway) -> None:
    """What no client library sends is refused as a request, or as one without a caller, and puts no line anywhere."""
    texts = [text for text in STRINGS if not sendable(text)]
    assert texts
    for text in texts:
        request = f"GET /api/feedback HTTP/1.1\r\nHost: x\r\n{header}: {text}\r\nConnection: close\r\n\r\n"
        answered = await send(gateway.port, request.encode())
        assert answered.status in {400, 401}, ascii(text)
        assert answered.code in {"malformed_request", "unauthenticated"}
        assert "set-cookie" not in answered.headers
