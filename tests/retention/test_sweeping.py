"""Retention: final submissions go when they are old, and nothing else does."""

import asyncio
from typing import Any

import pytest

from relay.delivery.model import FINAL
from relay.retention.model import Policy
from relay.retention.sweeping import Sweep
from relay.storage.engine import Database
from tests.retention.conftest import Kept

WAITING = ["pending", "sending", "held", "needs_owner"]


async def test_what_is_said_is_erased_and_the_keys_stay(kept: Kept):
    """Rating, comment, bytes, excerpts, resolution and a reason go; ids, states, error kinds and times stay."""
    seq = await kept.place("abandoned")
    before = await kept.everything()
    assert await kept.sweep().run() == {"acme": {"literature": 1}}
    after = await kept.everything()
    [submission], [was] = after["submissions"], before["submissions"]
    gone = dict.fromkeys(("rating", "comment", "payload", "sha256"))
    assert submission == {**was, **gone, "erased_at": submission["erased_at"]}
    assert submission["erased_at"] > was["created_at"]
    [delivery], [was] = after["deliveries"], before["deliveries"]
    gone = dict.fromkeys(("resolution", "abandoned_why", "check_due_at"))
    assert delivery == {**was, **gone, "version": was["version"] + 1}
    [attempt], [was] = after["attempts"], before["attempts"]
    assert attempt == {**was, "excerpt": None}
    [event] = after["events"]
    assert (event["ref"], event["owner"], event["tenant"], event["state"]) == (seq, 1, "acme", "abandoned")


async def test_the_audit_log_tells_who_erased_how_much(kept: Kept):
    """Two entries for each tenant of whom something was erased, and none for a sweep that found nothing."""
    for _ in range(3):
        await kept.place()
    await kept.place(tenant="other", agent="chemistry")
    await kept.sweep(batch=2).run()
    await kept.sweep(batch=2).run()
    audited = await kept.outbox.rows(
        "SELECT tenant, actor, action, after FROM audit_log WHERE target = 'submissions' ORDER BY seq"
    )
    assert [tuple(row.values()) for row in audited] == [
        ("acme", "retention", "retention.sweep", '{"days": 30}'),
        ("acme", "retention", "retention.swept", '{"agents": {"literature": 3}, "days": 30, "erased": 3}'),
        ("other", "retention", "retention.sweep", '{"days": 30}'),
        ("other", "retention", "retention.swept", '{"agents": {"chemistry": 1}, "days": 30, "erased": 1}'),
    ]


async def test_what_still_waits_is_never_erased_by_age(kept: Kept):
    """Whatever its age: only final states are erased, and all of those."""
    for state in WAITING:
        await kept.place(state)
    final = {await kept.place(state) for state in sorted(FINAL)}
    await kept.sweep(batch=2).run()
    assert await kept.erased() == final


async def test_each_tenant_by_its_own_age(kept: Kept):
    """The default, a tenant's own longer one, and one that is kept for ever."""
    old = await kept.place(days_old=30.01)
    await kept.place(days_old=29.99)
    long_kept = await kept.place(tenant="long", days_old=366)
    await kept.place(tenant="long", days_old=364)
    await kept.place(tenant="ever", days_old=10_000)
    await kept.sweep(long=365, ever=0).run()
    assert await kept.erased() == {old, long_kept}


async def test_without_a_policy_nothing_is_erased(kept: Kept):
    """The default keeps for ever."""
    await kept.place(days_old=10_000)
    assert await kept.sweep(0).run() == {}
    assert await kept.erased() == set()


async def test_a_look_changes_nothing_and_says_the_same(kept: Kept):
    """A dry run counts by tenant and agent what the run then erases."""
    for agent in ("literature", "literature", "chemistry"):
        await kept.place(agent=agent)
    await kept.place("pending")
    await kept.place(tenant="other")
    before = await kept.everything()
    seen = await kept.sweep().look()
    assert await kept.everything() == before
    assert seen == {"acme": {"chemistry": 1, "literature": 2}, "other": {"literature": 1}}
    done: list[int] = []
    assert await kept.sweep(batch=2).run(done.append) == seen
    assert sum(done) == 4
    assert await kept.sweep().look() == {}


async def test_what_an_attempt_is_under_way_for_is_left(kept: Kept):
    """Given up in the middle of an attempt: until its lease ends, or the attempt is logged, it may still be sent."""
    seq = await kept.place("abandoned")
    await kept.outbox.change("UPDATE deliveries SET attempt_count = 2, lease_until = {now} + 60000")
    assert await kept.sweep().run() == {}
    await kept.outbox.change("UPDATE deliveries SET lease_until = {now} - 1")
    await kept.sweep().run()
    assert await kept.erased() == {seq}


async def test_sweeps_side_by_side_share_the_work(kept: Kept, database_url: str):
    """Four at once erase each submission once: one event each, and sums that agree."""
    for _ in range(40):
        await kept.place()
    others = [Database.open(database_url) for _ in range(3)]
    sweeps = [Sweep(db, Policy(30), by="retention", batch=3) for db in (kept.outbox.db, *others)]
    # Whoever finds all that is left locked by others has nothing to do.
    sums = await asyncio.gather(*(sweep.run() for sweep in sweeps))
    for db in others:
        await db.close()
    assert sum(done.get("acme", {}).get("literature", 0) for done in sums) == 40
    assert len(await kept.erased()) == 40
    assert (await kept.outbox.rows("SELECT count(*) AS n, count(DISTINCT ref) AS refs FROM events"))[0] == {
        "n": 40,
        "refs": 40,
    }


async def test_a_retry_at_the_same_instant_comes_before_or_after(kept: Kept):
    """What is reopened waits with all its content, what is erased is not reopened: never both."""
    numbers = [await kept.place("exhausted") for _ in range(20)]
    deliveries = [row["id"] for row in await kept.outbox.rows("SELECT id FROM deliveries ORDER BY id")]
    revision = kept.outbox.registry.snapshot["literature"].revision  # type: ignore[index]
    reopening = [kept.outbox.deliveries.reopen(delivery, revision, held=False) for delivery in deliveries]
    *reopened, _ = await asyncio.gather(*reopening, kept.sweep(batch=1).run())
    rows = await kept.outbox.rows(
        "SELECT s.seq, s.erased_at IS NOT NULL AS erased, s.payload IS NULL AS gone, d.state FROM submissions s"
        " JOIN deliveries d ON d.submission = s.seq ORDER BY s.seq"
    )
    expected = [("pending", False) if opened else ("exhausted", True) for opened in reopened]
    assert [(row["state"], bool(row["erased"])) for row in rows] == expected
    assert all(bool(row["erased"]) == bool(row["gone"]) for row in rows)
    assert [row["seq"] for row in rows] == numbers


async def test_an_erased_submission_is_not_reopened(kept: Kept):
    """A retry that comes after the erasure finds nothing to send."""
    await kept.place("exhausted")
    await kept.sweep().run()
    [row] = await kept.outbox.rows("SELECT id FROM deliveries")
    revision = kept.outbox.registry.snapshot["literature"].revision  # type: ignore[index]
    assert not await kept.outbox.deliveries.reopen(row["id"], revision, held=False)


async def test_what_is_claimed_cannot_be_erased(kept: Kept):
    """Between claim and send a worker's submission stays: the database refuses, and a sweep does not try."""
    await kept.place("pending")
    [claimed] = await kept.outbox.claim()
    assert await kept.sweep().run() == {}
    erase = "UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL, erased_at = {now}"
    with pytest.raises(Exception, match="immutable"):
        await kept.outbox.change(erase)
    assert (await kept.outbox.settle(claimed, "saved")).state == "saved"
    [row] = await kept.outbox.rows("SELECT rating FROM submissions")
    assert row["rating"] == "down"


async def late(kept: Kept, end: str, **details: Any) -> dict[str, Any]:
    """How things stand when the claim of an attempt ends that was taken to be lost, after the erasure."""
    await kept.place("pending")
    [claimed] = await kept.outbox.claim()
    await kept.outbox.change("UPDATE deliveries SET state = 'abandoned', claim_token = NULL, lease_until = NULL")
    await kept.sweep().run()
    await kept.outbox.settle(claimed, end, **details)
    [row] = await kept.outbox.rows(
        "SELECT s.rating, s.comment, s.payload, s.sha256, d.state, d.resolution, a.outcome, a.excerpt"
        " FROM submissions s JOIN deliveries d ON d.submission = s.seq JOIN attempts a ON a.delivery = d.id"
        " WHERE a.number = 2"
    )
    return row


async def test_a_late_acknowledgement_brings_nothing_back(kept: Kept):
    """It counts as saved, since the specialist has it; what was erased stays erased."""
    row = await late(kept, "saved")
    assert (row.pop("state"), row.pop("outcome")) == ("saved", "saved")
    assert set(row.values()) == {None}


async def test_a_late_refusal_leaves_no_excerpt(kept: Kept):
    """The attempt is logged; what the specialist quoted is not."""
    row = await late(kept, "rejected", reason="http_422", excerpt="alice wrote")
    assert (row["state"], row["outcome"], row["excerpt"]) == ("abandoned", "rejected", None)


async def test_a_resolution_read_back_late_is_not_kept(kept: Kept):
    """The specialist's word on an erased rating does not come in any more; on a kept one it does."""
    erased, other = await kept.place(), await kept.place(days_old=1)
    await kept.sweep().run()
    await kept.outbox.change("UPDATE deliveries SET resolution = 'fixed for alice'")
    rows = await kept.outbox.rows("SELECT submission, resolution FROM deliveries")
    assert {row["submission"]: row["resolution"] for row in rows} == {erased: None, other: "fixed for alice"}


async def test_an_excerpt_of_a_kept_submission_is_kept(kept: Kept):
    """What guards erased ones leaves the others alone."""
    await kept.place("pending")
    [claimed] = await kept.outbox.claim()
    await kept.outbox.settle(claimed, "retry", reason="http_500", excerpt="out of order")
    [row] = await kept.outbox.rows("SELECT excerpt FROM attempts WHERE number = 2")
    assert row["excerpt"] == "out of order"
