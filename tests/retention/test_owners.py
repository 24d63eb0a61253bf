"""Erasing one owner on request: everything of theirs, nothing of anybody else's, and nothing sent after it."""

import asyncio
import json
from typing import Any

import pytest

from relay.retention.model import Copies, Erasure
from relay.retention.owners import OwnerErasure
from tests.retention.conftest import Kept

EVIDENCE = """
INSERT INTO provenance (owner, tenant, recorded_by, agent, registration_version, task, conversation, answer, role,
    ran_as, status, created_at)
VALUES (:owner, 'acme', 'workbench', 'literature', 1, 't', 'c', 'a', 'specialist', 'client', 'completed', 1)
"""
STATES = ("saved", "rejected", "pending", "held", "needs_owner")


async def erasure(kept: Kept, owner: int = 1) -> OwnerErasure:
    found = await OwnerErasure.find(kept.outbox.db, f"ok_{owner}")
    assert found is not None
    return found


@pytest.fixture
async def two_owners(kept: Kept) -> Kept:
    """Two who have said the same, in several states and tenants, with evidence and a sealed subject."""
    await kept.outbox.change("UPDATE owners SET sealed_subject = :s, seal_kid = 'k' WHERE id = 1", s=b"alice")
    await kept.place_owner(2)
    for owner in (1, 2):
        for state in STATES:
            outcome = state if state in {"saved", "rejected"} else "retry"
            await kept.place(state, owner=owner, days_old=0, outcome=outcome, ambiguous=state == "pending")
        await kept.place("saved", owner=owner, days_old=0, tenant="other", agent="chemistry")
        await kept.outbox.change(EVIDENCE, owner=owner)
        evidence = "INSERT INTO provenance_evidence (provenance, kind, id) SELECT seq, 'call', '7' FROM provenance"
        await kept.outbox.change(f"{evidence} WHERE owner = :owner", owner=owner)
    return kept


DONE = Erasure(
    erased=6,
    abandoned=3,
    under_way=0,
    evidence=1,
    subject=True,
    copies=(
        Copies(agent="chemistry", origin="https://chemistry.example.org", contact=None, saved=1, possibly_received=0),
        Copies(
            agent="literature",
            origin="https://literature.example.org",
            contact="lab@literature.example.org",
            saved=1,
            possibly_received=1,
        ),
    ),
)
CONTACT = "UPDATE registrations SET owner_contact = 'lab@literature.example.org' WHERE agent = 'literature'"


async def test_everything_of_one_owner_is_erased_and_nothing_of_another(two_owners: Kept):
    """What waits is given up, all is erased, subject and evidence are deleted; the other owner keeps everything."""
    kept = two_owners
    before = await kept.everything()
    await (await erasure(kept)).run("cli:root", "request 7")
    after = await kept.everything()
    assert len(await kept.erased()) == 6
    for table in ("submissions", "deliveries"):
        assert [row for row in after[table] if row["owner"] == 2] == [r for r in before[table] if r["owner"] == 2]
    states = [row["state"] for row in after["deliveries"] if row["owner"] == 1]
    assert states == ["saved", "rejected", "abandoned", "abandoned", "abandoned", "saved"]
    given_up = [row for row in after["deliveries"] if row["owner"] == 1 and row["state"] == "abandoned"]
    assert {(row["abandoned_by"], row["abandoned_why"]) for row in given_up} == {("cli:root", "erasure on request")}
    owners = {row["id"]: row for row in after["owners"]}
    assert (owners[1]["sealed_subject"], owners[1]["seal_kid"]) == (None, None)
    assert owners[1]["erased_at"] is not None
    assert owners[1]["lookup_hmac"] == before["owners"][0]["lookup_hmac"]
    assert owners[2] == before["owners"][1]
    assert len(after["provenance_evidence"]) == 1
    excerpts = await kept.outbox.rows(
        "SELECT d.owner FROM attempts a JOIN deliveries d ON d.id = a.delivery WHERE a.excerpt IS NOT NULL"
    )
    assert [row["owner"] for row in excerpts] == [2] * 6
    assert {row["ref"] for row in after["events"]} == await kept.erased()


async def test_a_look_changes_nothing_and_says_the_same(two_owners: Kept):
    """A dry run has the numbers of the run, the copies at specialists with their contacts included."""
    kept = two_owners
    await kept.outbox.change(CONTACT)
    before = await kept.everything()
    assert await (await erasure(kept)).look() == DONE
    assert await kept.everything() == before
    told: list[int] = []
    assert await (await erasure(kept)).run("cli:root", "request 7", advance=told.append) == DONE
    assert sum(told) == 6


async def test_a_second_time_finds_nothing_but_the_copies(two_owners: Kept):
    """What specialists keep is told as often as it is asked."""
    kept = two_owners
    await kept.outbox.change(CONTACT)
    await (await erasure(kept)).run("cli:root", "request 7")
    again = await (await erasure(kept)).run("cli:root", "request 7")
    assert again == Erasure(erased=0, abandoned=0, under_way=0, evidence=0, subject=False, copies=DONE.copies)


async def test_a_specialist_that_moved_is_listed_where_each_copy_went(two_owners: Kept):
    """Copies lie at the origin that an attempt went to, not at where the agent is now."""
    kept = two_owners
    await kept.outbox.change(
        "INSERT INTO registrations (agent, version, name, state, source, origin, protocol, credentials, lineage,"
        " proposed_at, proposed_by) SELECT agent, 2, name, 'approved', source, 'https://new.example.org', protocol,"
        " credentials, lineage, proposed_at, proposed_by FROM registrations WHERE agent = 'literature'"
    )
    await kept.outbox.change(
        "INSERT INTO attempts (delivery, number, cause, registration_version, started_at, outcome, ambiguous)"
        " SELECT d.id, 2, 'schedule', 2, 1, 'saved', false FROM deliveries d WHERE d.owner = 1 AND d.state = 'pending'"
    )
    copies = (await (await erasure(kept)).look()).copies
    assert [(c.origin, c.saved, c.possibly_received) for c in copies] == [
        ("https://chemistry.example.org", 1, 0),
        ("https://literature.example.org", 1, 1),
        ("https://new.example.org", 1, 0),
    ]


async def test_the_audit_log_tells_each_tenant_and_no_subject(two_owners: Kept):
    """Who, whose key, why and how much: at the beginning and at the end, for each tenant its own."""
    kept = two_owners
    await (await erasure(kept)).run("cli:root", "request 7")
    audited = await kept.outbox.rows(
        "SELECT tenant, actor, action, target, after, why FROM audit_log WHERE target = 'ok_1' ORDER BY seq"
    )
    assert {(row["actor"], row["why"]) for row in audited} == {("cli:root", "request 7")}
    assert [(row["action"], row["tenant"], json.loads(row["after"] or "null")) for row in audited] == [
        ("owner.erase", "acme", None),
        ("owner.erase", "other", None),
        ("owner.erased", "acme", {"erased": 5, "abandoned": 3}),
        ("owner.erased", "other", {"erased": 1, "abandoned": 0}),
    ]


async def test_an_owner_who_never_rated(kept: Kept):
    """They are erased as well, and it is told of the whole deployment."""
    done = await (await erasure(kept)).run("cli:root", "request 7")
    assert (done.erased, done.copies) == (0, ())
    audited = await kept.outbox.rows("SELECT tenant, action FROM audit_log WHERE target = 'ok_1' ORDER BY seq")
    assert [tuple(row.values()) for row in audited] == [(None, "owner.erase"), (None, "owner.erased")]
    assert await OwnerErasure.find(kept.outbox.db, "ok_9") is None


class Waiting:
    """Notes that an erasure waits, and lets a test go on from there."""

    def __init__(self) -> None:
        self.left: list[int] = []
        self.began = asyncio.Event()

    def __call__(self, left: int) -> None:
        self.left.append(left)
        self.began.set()


@pytest.mark.parametrize("end", ["saved", "rejected", "retry"])
async def test_an_attempt_under_way_is_waited_for(kept: Kept, end: Any):
    """Nothing is erased under it and nothing more is claimed; when it has ended, all is, however it ended."""
    await kept.place("pending", days_old=0, outcome="retry")
    [claimed] = await kept.outbox.claim()
    waiting = Waiting()
    erasing = asyncio.ensure_future((await erasure(kept)).run("cli:root", "request 7", waiting=waiting))
    await waiting.began.wait()
    [row] = await kept.outbox.rows(
        "SELECT d.state, s.rating FROM deliveries d JOIN submissions s ON s.seq = d.submission"
    )
    assert row == {"state": "abandoned", "rating": "down"}
    await kept.outbox.make_due()
    assert await kept.outbox.claim() == []
    await kept.outbox.settle(claimed, end, excerpt="alice wrote")
    done = await erasing
    assert (done.erased, done.abandoned, done.under_way) == (1, 1, 1)
    assert waiting.left[0] == 1
    [row] = await kept.outbox.rows(
        "SELECT d.state, s.rating FROM deliveries d JOIN submissions s ON s.seq = d.submission"
    )
    assert row == {"state": "saved" if end == "saved" else "abandoned", "rating": None}
    assert await kept.outbox.rows("SELECT 1 FROM attempts WHERE excerpt IS NOT NULL") == []
    assert sum(copies.saved for copies in done.copies) == (1 if end == "saved" else 0)


async def test_a_lease_that_runs_out_ends_the_wait(kept: Kept):
    """Of a process that died nothing comes any more: its lease says until when to wait."""
    await kept.place("pending", days_old=0, outcome="retry")
    await kept.outbox.claim()
    waiting = Waiting()
    erasing = asyncio.ensure_future((await erasure(kept)).run("cli:root", "request 7", waiting=waiting))
    await waiting.began.wait()
    await kept.outbox.change("UPDATE deliveries SET lease_until = {now} - 1")
    assert (await erasing).erased == 1
    assert await kept.outbox.deliveries.expired() == []


async def test_an_expired_claim_is_not_waited_for(kept: Kept):
    """No attempt goes on past its lease."""
    await kept.place("pending", days_old=0, outcome="retry")
    await kept.outbox.claim()
    await kept.outbox.change("UPDATE deliveries SET lease_until = {now} - 1")
    waiting = Waiting()
    done = await (await erasure(kept)).run("cli:root", "request 7", waiting=waiting)
    assert (done.erased, done.under_way, waiting.left) == (1, 1, [])
    states = [row["state"] for row in await kept.outbox.rows("SELECT state FROM events ORDER BY seq DESC LIMIT 2")]
    assert states == ["abandoned", "abandoned"]


async def test_stopped_in_the_middle_it_goes_on_the_next_time(kept: Kept):
    """What was given up stays given up, and is erased by the next run."""
    await kept.place("pending", days_old=0, outcome="retry")
    await kept.outbox.claim()
    waiting = Waiting()
    erasing = asyncio.ensure_future((await erasure(kept)).run("cli:root", "request 7", waiting=waiting))
    await waiting.began.wait()
    erasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await erasing
    assert await kept.erased() == set()
    await kept.outbox.change("UPDATE deliveries SET lease_until = {now} - 1")
    done = await (await erasure(kept)).run("cli:root", "request 7")
    assert (done.erased, done.abandoned) == (1, 0)
