"""Exports over HTTP: who may have them, what they are called, and readers that are slow or leave."""

import asyncio
import csv
import io
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from relay.http import downloads
from tests.operators.export.test_exporting import MANY, MANY_DELIVERIES, connections
from tests.support.gateway import Gateway, small_world

EXPORT = "/api/operator/export"
LONG = "=" * 4000


@pytest.fixture
async def relay(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    async with small_world(tmp_path, database_url, agents=("literature",)) as (running, _):
        yield running


def operator(relay: Gateway, **claims: Any) -> str:
    return relay.token("olga", "operator:read", **claims)


async def rate(relay: Gateway, *comments: str) -> None:
    for number, comment in enumerate(comments):
        await relay.record(f"t-{number}")
        assert (await relay.rate(f"t-{number}", comment=comment)).status == 201


async def fill(relay: Gateway) -> None:
    """Three thousand submissions with long comments, past the gateway: more than fits into the buffers on the way."""
    await relay.record("t-0")  # whereby there is an owner
    await relay.change(MANY, comment=LONG, payload=b"{}")
    await relay.change(MANY_DELIVERIES)


async def ended(relay: Gateway) -> dict[str, Any]:
    """What the audit log says of the end of the one export; the test's timeout bounds the wait."""
    while True:
        found = await relay.rows("SELECT after FROM audit_log WHERE action = 'export.end'")
        if found:
            return dict(json.loads(found[0]["after"]))
        await asyncio.sleep(0.02)


async def all_released(relay: Gateway) -> None:
    """Until no connection is in use: background work has one now and then. The test's timeout bounds the wait."""
    while True:
        if connections(relay.relay.db) == 0:
            return
        await asyncio.sleep(0.01)


def socket_of(port: int) -> socket.socket:
    """A connection whose own side keeps little: before it is made, or the kernel has decided."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect(("127.0.0.1", port))
    made.setblocking(False)
    return made


async def begin(relay: Gateway) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A reader that has asked for a long file, and takes little of it."""
    reader, writer = await asyncio.open_connection(sock=socket_of(relay.port), limit=1024)
    request = f"GET {EXPORT}?format=csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {operator(relay)}\r\n\r\n"
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_files_are_what_the_list_shows(relay: Gateway):
    """In each format, by the name of a file, as an attachment that nothing caches; no subject is in any of them."""
    await rate(relay, "=1+1", "wrong")
    listed = (await relay.call("GET", "/api/operator/submissions", token=operator(relay))).json["items"]
    files = {name: await relay.call("GET", f"{EXPORT}?format={name}", token=operator(relay)) for name in TYPES}
    for name, answered in files.items():
        assert answered.status == 200
        assert answered.headers["Content-Type"] == TYPES[name]
        assert answered.headers["Content-Disposition"] == f'attachment; filename="submissions.{name}"'
        assert answered.headers["Cache-Control"] == "no-store"
        assert answered.headers["X-Content-Type-Options"] == "nosniff"
        assert b"alice" not in answered.body
    assert [json.loads(line) for line in files["jsonl"].body.splitlines()] == listed
    rows = list(csv.DictReader(io.StringIO(files["csv"].body.decode(), newline="")))
    assert [row["comment"] for row in rows] == ["wrong", "'=1+1"]
    assert [(row["owner"], row["id"]) for row in rows] == [(one["owner"], one["id"]) for one in listed]
    table = parquet.read_table(pa.BufferReader(files["parquet"].body))
    assert table.column("comment").to_pylist() == ["wrong", "=1+1"]


TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}


async def test_an_export_keeps_to_filter_and_tenant(relay: Gateway):
    """As the list does; and it is in the audit log, which the operators of the tenant can read."""
    await rate(relay, "wrong", "right")
    found = await relay.call("GET", f"{EXPORT}?format=jsonl&q=WRONG&state=saved", token=operator(relay))
    assert [json.loads(line)["comment"] for line in found.body.splitlines()] == ["wrong"]
    elsewhere = await relay.call("GET", f"{EXPORT}?format=jsonl", token=operator(relay, tenant="other"))
    assert (elsewhere.status, elsewhere.body) == (200, b"")
    audit = await relay.call("GET", "/api/operator/audit?action=export.begin", token=operator(relay))
    [entry] = audit.json["items"]
    assert entry["after"]["filter"] == {"state": "saved", "q": "(not kept)"}
    assert b"WRONG" not in audit.body


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("", "format"),
        ("format=xlsx", "format"),
        ("format=csv&state=lost", "state"),
        ("format=csv&since=2026-03-01", "since"),
        ("format=csv&limit=1", "limit"),
    ],
    ids=["no format", "format", "state", "since", "limit"],
)
async def test_a_bad_parameter_is_named(relay: Gateway, query: str, parameter: str):
    """400 before anything is read, and nothing in the audit log."""
    refused = await relay.call("GET", f"{EXPORT}?{query}", token=operator(relay))
    assert (refused.status, refused.code, refused.json["parameter"]) == (400, "invalid_parameter", parameter)
    assert await relay.rows("SELECT 1 FROM audit_log WHERE action LIKE 'export.%'") == []


async def test_exports_are_for_operators(relay: Gateway):
    """Who rates, and a machine whatever its scopes, gets none."""
    for token in (relay.token("alice"), relay.token("workbench", "operator:read")):
        refused = await relay.call("GET", f"{EXPORT}?format=csv", token=token)
        assert (refused.status, refused.code) == (403, "insufficient_scope")


async def test_parquet_says_where_it_is_not_installed(relay: Gateway, monkeypatch: pytest.MonkeyPatch):
    """501 that names the extra; what takes none goes on."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "relay.operators.export.columnar", raising=False)
    refused = await relay.call("GET", f"{EXPORT}?format=parquet", token=operator(relay))
    assert (refused.status, refused.code) == (501, "export_format_unavailable")
    assert "feedback-relay[parquet]" in refused.json["detail"]
    assert (await relay.call("GET", f"{EXPORT}?format=csv", token=operator(relay))).status == 200


async def test_a_reader_that_leaves_releases_everything(relay: Gateway):
    """The end is in the audit log, not all was read, and no connection is in use."""
    await fill(relay)
    _, writer = await begin(relay)
    writer.transport.abort()
    found = await ended(relay)
    assert found["complete"] is False
    assert found["rows"] < 3000
    await all_released(relay)


async def test_a_reader_that_takes_nothing_is_cut_off(relay: Gateway, monkeypatch: pytest.MonkeyPatch):
    """After a while; until then others are answered, and no more is read than fits on the way."""
    monkeypatch.setattr(downloads, "STALLED_SECONDS", 1.0)
    await fill(relay)
    reader, writer = await begin(relay)
    last = b""
    assert (await relay.call("GET", "/api/operator/submissions?limit=1", token=operator(relay))).status == 200
    found = await ended(relay)
    assert found["complete"] is False
    assert found["rows"] < 3000
    with suppress(ConnectionError):
        while received := await reader.read(2**16):
            last = received
    assert not last.endswith(b"0\r\n\r\n")
    writer.close()


async def test_what_breaks_off_can_be_told_from_what_is_complete(relay: Gateway):
    """A database that fails in the middle (a table is gone) ends the answer without HTTP's end, and the log says so."""
    await fill(relay)
    reader, writer = await begin(relay)  # who reads nothing more: the rest waits
    await relay.change("ALTER TABLE attempts RENAME TO attempts_away")
    last = b""
    with suppress(ConnectionError):
        while received := await reader.read(2**16):
            last = received
    writer.close()
    await relay.change("ALTER TABLE attempts_away RENAME TO attempts")
    assert not last.endswith(b"0\r\n\r\n")
    found = await ended(relay)
    assert found["complete"] is False
    assert 0 < found["rows"] < 3000
    await all_released(relay)
