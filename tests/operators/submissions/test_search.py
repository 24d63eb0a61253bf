"""Searching a tenant's submissions: what a filter says is what is found, counted and paged through."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from relay.operators.submissions.filter import SubmissionFilter, condition
from relay.storage.engine import Database
from tests.delivery.conftest import TENANT
from tests.operators.submissions.conftest import OWNERS, Desk

COMMENTS = (None, "100% wrong", "100 percent", "a_b", "aXb", "Über", "über!", "it's \\ 'quoted'", "wow!")
NEEDLES = ("100%", "%", "_", "a_b", "ÜBER", "wrong", "!", "\\", "'", "nothing")

SUBMISSION = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from([TENANT, "other"]),
        "owner": st.integers(1, 3),
        "client": st.sampled_from(["workbench", "console"]),
        "agent": st.sampled_from(["literature", "chemistry"]),
        "rating": st.sampled_from(["up", "down"]),
        "comment": st.sampled_from(COMMENTS),
        "created_at": st.integers(1, 5),
        "state": st.sampled_from(["pending", "saved", "held"]),
        "evidence": st.sampled_from(["unchecked", "confirmed"]),
    }
)

FILTER = st.builds(
    SubmissionFilter,
    state=st.sampled_from([None, "pending", "saved", "abandoned"]),
    agent=st.sampled_from([None, "literature", "nobody"]),
    rating=st.sampled_from([None, "up"]),
    owner=st.sampled_from([None, "ok_1", "ok_2", "ok_absent"]),
    client=st.sampled_from([None, "console"]),
    since=st.sampled_from([None, 2, 4]),
    until=st.sampled_from([None, 3, 5]),
    q=st.sampled_from([None, *NEEDLES]),
    evidence=st.sampled_from([None, "confirmed"]),
)


def matches(row: dict[str, Any], wanted: SubmissionFilter) -> bool:
    """What the filter says, in other words."""
    if row["tenant"] != TENANT:
        return False
    shown = {**row, "owner": OWNERS[row["owner"] - 1]}
    equal = ("state", "agent", "rating", "owner", "client", "evidence")
    return (
        all(getattr(wanted, name) in (None, shown[name]) for name in equal)
        and (wanted.since is None or row["created_at"] >= wanted.since)
        and (wanted.until is None or row["created_at"] < wanted.until)
        and (wanted.q is None or (row["comment"] is not None and wanted.q.lower() in row["comment"].lower()))
    )


async def clear(db: Database) -> None:
    """Past the triggers that keep submissions from being deleted: the next example begins with none."""
    async with db.write() as connection:
        await connection.execute(text("DELETE FROM deliveries"))
        if db.dialect == "postgresql":
            await connection.execute(text("SET LOCAL session_replication_role = replica"))
            await connection.execute(text("DELETE FROM submissions"))
            return
        kept = (
            await connection.execute(text("SELECT sql FROM sqlite_master WHERE name = 'submissions_kept'"))
        ).scalar()
        await connection.execute(text("DROP TRIGGER submissions_kept"))
        await connection.execute(text("DELETE FROM submissions"))
        await connection.exec_driver_sql(str(kept))


async def walked(desk: Desk, wanted: SubmissionFilter, limit: int) -> list[str]:
    """The ids of every page, one after the other."""
    ids: list[str] = []
    before: int | None = None
    while page := await desk.submissions.page(TENANT, wanted, before=before, most=limit):
        assert len(page) <= limit
        ids += [one.id for one in page]
        before = page[-1].seq
    return ids


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(SUBMISSION, max_size=8), wanted=st.lists(FILTER, min_size=1, max_size=4), limit=st.integers(1, 3))
async def test_lists_and_totals_are_what_the_filter_says(
    desk: Desk, rows: Sequence[dict[str, Any]], wanted: Sequence[SubmissionFilter], limit: int
):
    """Page by page exactly the submissions of the tenant that match, newest first; the total is their number."""
    await clear(desk.db)
    for number, row in enumerate(rows):
        await desk.place(number, **row)
    for one in wanted:
        expected = [f"s-{n}" for n, row in enumerate(rows) if matches(row, one)][::-1]
        assert await walked(desk, one, limit) == expected
        assert await desk.submissions.count(TENANT, one) == len(expected)
        assert await desk.submissions.count(TENANT, one, most=2) == min(2, len(expected))


async def test_each_member_of_a_filter_says_something(desk: Desk):
    """Two submissions that differ in everything: each member alone tells them apart."""
    await desk.place(1, comment="first", evidence="confirmed", state="saved")
    await desk.place(2, owner=2, client="console", agent="chemistry", rating="down", comment="second", created_at=9_000)
    alone = {
        "state": "saved",
        "agent": "literature",
        "rating": "up",
        "owner": "ok_1",
        "client": "workbench",
        "until": 9_000,
        "q": "FIRST",
        "evidence": "confirmed",
    }
    for name, value in alone.items():
        assert await walked(desk, replace(SubmissionFilter(), **{name: value}), 10) == ["s-1"], name
    assert await walked(desk, SubmissionFilter(since=9_000), 10) == ["s-2"]
    assert {*alone, "since"} == {field.name for field in fields(SubmissionFilter)}


def test_a_comment_that_is_searched_for_is_not_shown_by_the_filter():
    """It may be personal: it is in no repr, and so in no log."""
    assert "secret" not in repr(SubmissionFilter(q="secret"))


def test_values_are_parameters():
    """None of them is put into the SQL."""
    wanted = SubmissionFilter(state="saved", agent="x'y", owner="o'", client="c'", q="q'")
    where = condition("t'", wanted)
    assert "'y" not in where.sql
    assert set(where.parameters) == {"f_tenant", "f_state", "f_agent", "f_owner", "f_client", "f_q"}


async def test_a_story_has_everything(desk: Desk):
    """The submission, its task, what the task used, and each attempt in its order, with the excerpt."""
    delivery = await desk.place(1, comment="wrong", state="pending", attempt_count=2, resolution="fixed")
    await desk.outbox.change(
        "INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task, conversation, answer,"
        " role, ran_as, status, parent, run, created_at, finished_at) VALUES (1, :tenant, 'workbench', 'literature', 1,"
        " 's-1', 'c', 'a', 'specialist', 'client', 'completed', 'p', 'r', 1, 2)",
        tenant=TENANT,
    )
    await desk.outbox.change("INSERT INTO provenance_evidence SELECT seq, 'tool', 'x' FROM provenance")
    for number, status in enumerate((503, 429), start=1):
        await desk.outbox.change(
            "INSERT INTO attempts (delivery, number, cause, registration_version, started_at, duration_ms, phase,"
            " status, outcome, error_kind, ambiguous, excerpt) VALUES (:delivery, :number, 'schedule', 1, 5, 7, 'body',"
            " :status, 'retry', 'server_error', false, :excerpt)",
            delivery=delivery,
            number=number,
            status=status,
            excerpt=f"excerpt {number}",
        )
    story = await desk.submissions.story(TENANT, "ok_1", "s-1")
    assert story is not None
    assert (story.submission.comment, story.submission.resolution) == ("wrong", "fixed")
    assert story.provenance is not None
    assert (story.provenance.parent, story.provenance.run, story.provenance.status) == ("p", "r", "completed")
    assert [(item.kind, item.id) for item in story.provenance.evidence] == [("tool", "x")]
    assert [(a.number, a.status, a.excerpt) for a in story.attempts] == [(1, 503, "excerpt 1"), (2, 429, "excerpt 2")]
    assert story.submission.last_attempt == story.attempts[-1]
    assert await desk.submissions.find(TENANT, "ok_1", "s-1") == story.submission


async def test_a_long_story_tells_of_the_newest_attempts(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    """Their number says that there were more."""
    monkeypatch.setattr("relay.operators.submissions.store.MOST_ATTEMPTS", 2)
    delivery = await desk.place(1, attempt_count=3)
    for number in (1, 2, 3):
        await desk.outbox.change(
            "INSERT INTO attempts (delivery, number, cause, started_at, outcome, ambiguous)"
            " VALUES (:delivery, :number, 'schedule', 5, 'retry', false)",
            delivery=delivery,
            number=number,
        )
    story = await desk.submissions.story(TENANT, "ok_1", "s-1")
    assert story is not None
    assert [attempt.number for attempt in story.attempts] == [2, 3]
    assert story.submission.attempt_count == 3


async def test_what_is_another_tenants_is_absent(desk: Desk):
    """By its owner and id, and in every list."""
    await desk.place(1, tenant="other")
    assert await desk.submissions.find(TENANT, "ok_1", "s-1") is None
    assert await desk.submissions.story(TENANT, "ok_1", "s-1") is None
    assert await walked(desk, SubmissionFilter(), 10) == []
    assert await desk.submissions.find("other", "ok_2", "s-1") is None
    assert await desk.submissions.find("other", "ok_1", "s-1") is not None


async def test_what_stands_in_the_way_is_told(desk: Desk):
    """A hold, an absent owner, a wait that was asked for, a paused agent, an open breaker; nothing of what is final."""
    soon = 2**52
    for number, state in enumerate(("pending", "held", "needs_owner", "saved"), start=1):
        await desk.place(number, state=state, not_before=soon if number == 1 else 0)

    async def kinds(number: int) -> list[tuple[str, int | None]]:
        story = await desk.submissions.story(TENANT, "ok_1", f"s-{number}")
        assert story is not None
        return [(each.kind, each.until) for each in story.obstacles]

    assert [await kinds(n) for n in (1, 2, 3, 4)] == [
        [("retry_after", soon)],
        [("held", None)],
        [("needs_owner", None)],
        [],
    ]
    await desk.outbox.change(
        "INSERT INTO agent_breakers (agent, window_started_at, attempts, failures, open_until, paused_until)"
        " VALUES ('literature', 1, 1, 1, 7, :soon)",
        soon=soon,
    )
    assert await kinds(2) == [("held", None), ("agent_paused", soon), ("breaker_open", 7)]
    assert await kinds(4) == []
