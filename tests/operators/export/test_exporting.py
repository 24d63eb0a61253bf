"""Reading everything that a filter means, on both engines, and what the audit log has of it."""

import json
import tracemalloc
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from relay.operators.export import exporting
from relay.operators.export.exporting import Export, Exports
from relay.operators.export.formats import make
from relay.operators.submissions.filter import SubmissionFilter
from relay.storage.engine import Database
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import Desk
from tests.operators.submissions.test_search import FILTER, SUBMISSION, clear

MANY = """
WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    comment, payload, sha256, created_at)
SELECT 1, 'acme', 'workbench', 'm-' || n, 'literature', 'm-' || n, 'client', 1, 'roblox-v1', 'up', :comment, :payload,
    'ab', n FROM n
"""
MANY_DELIVERIES = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, agent, tenant, owner, false, 'saved', 1, 1, 0, 1, 1, 1, 'unchecked', 1 FROM submissions
"""


def export(wanted: SubmissionFilter) -> Export:
    return Export(id="e-1", tenant=TENANT, wanted=wanted, format="jsonl", by="ok_9")


async def audited(desk: Desk) -> list[dict[str, Any]]:
    return await desk.outbox.rows("SELECT * FROM audit_log WHERE action LIKE 'export.%' ORDER BY seq")


def connections(db: Database) -> int:
    """How many are in use right now."""
    pools = [engine.sync_engine.pool for engine in {db._reader, db._writer}]
    return sum(pool.checkedout() for pool in pools)  # type: ignore[attr-defined]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(SUBMISSION, max_size=8), wanted=st.lists(FILTER, min_size=1, max_size=3), batch=st.integers(1, 4))
async def test_a_file_has_what_the_list_has(
    desk: Desk, rows: Sequence[dict[str, Any]], wanted: Sequence[SubmissionFilter], batch: int
):
    """Under any filter, newest first, however many are read at once."""
    await clear(desk.db)
    for number, row in enumerate(rows):
        await desk.place(number, **row)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "BATCH_ROWS", batch)
        for one in (SubmissionFilter(), *wanted):
            parts = [part async for part in Exports(desk.db, desk.submissions).parts(export(one), make("jsonl"))]
            listed = await desk.submissions.page(TENANT, one, before=None, most=100)
            assert [json.loads(line)["id"] for line in b"".join(parts).splitlines()] == [each.id for each in listed]


async def test_an_export_is_audited_before_and_after(desk: Desk):
    """Who, as what, under which filter, how many there are, and how many went out; never the words searched for."""
    await desk.place(1, comment="about Alice")
    await desk.place(2, comment="of no use")
    wanted = SubmissionFilter(q="alice", rating="up")
    parts = Exports(desk.db, desk.submissions).parts(export(wanted), make("jsonl"))
    await anext(parts)
    [begun] = await audited(desk)
    assert (begun["action"], begun["actor"], begun["tenant"], begun["target"]) == (
        "export.begin",
        "ok_9",
        TENANT,
        "export/e-1",
    )
    said = {"format": "jsonl", "filter": {"q": "(not kept)", "rating": "up"}, "total": 1}
    assert json.loads(begun["after"]) == said
    _ = [part async for part in parts]
    [_, ended] = await audited(desk)
    assert (ended["action"], ended["actor"], ended["target"]) == ("export.end", "ok_9", "export/e-1")
    assert json.loads(ended["after"]) == {"rows": 1, "complete": True}


async def test_who_leaves_in_the_middle_is_audited(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """With what had been handed out by then, the batch under way included."""
    monkeypatch.setattr(exporting, "BATCH_ROWS", 2)
    for number in range(5):
        await desk.place(number)
    async with aclosing(Exports(desk.db, desk.submissions).parts(export(SubmissionFilter()), make("jsonl"))) as parts:
        await anext(parts)
        await anext(parts)
    [_, ended] = await audited(desk)
    assert json.loads(ended["after"]) == {"rows": 2, "complete": False}
    assert connections(desk.db) == 0


async def test_no_connection_is_held_while_a_part_is_on_its_way(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """After each part, whichever it is, none is in use: a slow reader keeps nobody from the database."""
    monkeypatch.setattr(exporting, "BATCH_ROWS", 1)
    for number in range(3):
        await desk.place(number)
    used = [
        connections(desk.db)
        async for _ in Exports(desk.db, desk.submissions).parts(export(SubmissionFilter()), make("csv"))
    ]
    assert used == [0] * 5


async def test_what_comes_in_meanwhile_is_not_in_it(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """An export comes to an end, however fast people rate."""
    monkeypatch.setattr(exporting, "BATCH_ROWS", 1)
    await desk.place(1)
    await desk.place(2)
    lines: list[bytes] = []
    parts = Exports(desk.db, desk.submissions).parts(export(SubmissionFilter()), make("jsonl"))
    number = 10
    async for part in parts:
        lines += part.splitlines()
        if lines:
            number += 1
            await desk.place(number)
    assert [json.loads(line)["id"] for line in lines] == ["s-2", "s-1"]


async def test_memory_does_not_grow_with_the_file(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Twelve megabytes of comments pass through a small part of that."""
    monkeypatch.setattr(exporting, "BATCH_ROWS", 50)
    async with desk.db.write() as connection:
        await connection.execute(text(MANY), {"comment": "=" * 4000, "payload": b"{}"})
        await connection.execute(text(MANY_DELIVERIES))
    for name in ("csv", "jsonl"):
        file, passed = make(name), 0
        tracemalloc.start()
        async for part in Exports(desk.db, desk.submissions).parts(export(SubmissionFilter()), file):
            passed += len(part)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert passed > 12_000_000
        assert peak < 4_000_000
