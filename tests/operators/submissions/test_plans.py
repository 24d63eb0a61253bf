"""How the databases go about an operator's list: by the index of the tenant, however many there are."""

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import event

from relay.operators.submissions.filter import SubmissionFilter
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import Desk

MANY = """
INSERT INTO submissions (owner, tenant, client, id, agent, task, ran_as, registration_version, protocol, rating,
    payload, sha256, created_at)
SELECT 1, CASE n % 50 WHEN 0 THEN 'acme' ELSE 'other' END, 'workbench', 'm-' || n, 'literature', 'm-' || n, 'client', 1,
    'roblox-v1', 'up', convert_to('{}', 'UTF8'), 'ab', n FROM generate_series(1, 5000) n
"""
MANY_DELIVERIES = """
INSERT INTO deliveries (kind, submission, agent, tenant, owner, needs_presence, state, state_since, due_at, not_before,
    schedule_position, attempt_count, window_started_at, evidence, version)
SELECT 'feedback', seq, agent, tenant, owner, false, 'saved', 1, 1, 0, 1, 1, 1, 'unchecked', 1 FROM submissions
"""


async def explained(desk: Desk, wanted: SubmissionFilter) -> str:
    """The plan of a page under this filter, as text."""
    noted: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        noted.append((statement, parameters))

    engine = desk.db._reader.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    await desk.submissions.page(TENANT, wanted, before=None, most=50)
    event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN" if desk.db.dialect == "sqlite" else "EXPLAIN (FORMAT JSON)"
    [(statement, parameters)] = [one for one in noted if "FROM submissions" in one[0]]
    async with desk.db.read() as connection:
        rows = (await connection.exec_driver_sql(f"{explain} {statement}", parameters)).all()
    return json.dumps([list(row) for row in rows])


async def test_a_page_is_read_by_tenant_and_number(desk: Desk):
    """With no filter, and with one on the delivery: the newest of the tenant, by their index."""
    if desk.db.dialect == "postgresql":
        for statement in (MANY, MANY_DELIVERIES, "ANALYZE submissions", "ANALYZE deliveries"):
            await desk.outbox.change(statement)
    for wanted in (SubmissionFilter(), replace(SubmissionFilter(), state="saved"), SubmissionFilter(q="unit")):
        plan = await explained(desk, wanted)
        assert "ix_submissions_tenant_seq" in plan, wanted
        assert "SCAN s" not in plan
