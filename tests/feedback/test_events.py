"""The stream of state changes: live, resumable, one's own, and no longer than the token."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from relay.retention.pruning import Pruning
from tests.support.gateway import Gateway, new_id


class Reader:
    """Reads a stream block by block; comments are passed over."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response

    async def block(self) -> dict[str, str]:
        """The next block that is not a comment; empty at the end of the stream."""
        while True:
            raw = (await self._response.content.readuntil(b"\n\n")).decode()
            if not raw:
                return {}
            lines = [line for line in raw.splitlines() if line and not line.startswith(":")]
            if lines:
                return dict(line.split(": ", 1) for line in lines)

    async def until(self, state: str, submission: str | None = None) -> dict[str, Any]:
        """The next event that shows a submission (this one, if one is named) in this state."""
        while True:
            block = await self.block()
            if block.get("event") == "feedback":
                shown = json.loads(block["data"])
                if shown["state"] == state and submission in (None, shown["id"]):
                    return {"id": block["id"], "submission": shown}


@asynccontextmanager
async def stream(relay: Gateway, token: str, *, last: str | None = None) -> AsyncIterator[Reader]:
    headers = {"Authorization": f"Bearer {token}", **({"Last-Event-ID": last} if last else {})}
    url = f"http://127.0.0.1:{relay.port}/api/feedback/events"
    async with (
        aiohttp.ClientSession() as http,  # noqa: TID251 - a caller, not the relay
        http.get(url, headers=headers, timeout=aiohttp.ClientTimeout(total=30)) as response,
    ):
        yield Reader(response)


async def test_a_change_is_told_as_it_happens(relay: Gateway):
    """The data is the submission as a GET shows it."""
    await relay.record("t1")
    async with stream(relay, relay.token()) as events:
        assert events.status == 200
        assert list(await events.block()) == ["id"]
        submission = new_id()
        await relay.rate("t1", id=submission)
        told = await events.until("saved")
        assert told["submission"] == (await relay.show(submission)).json


async def test_a_stream_resumes_where_it_was_cut_off(relay: Gateway):
    """With Last-Event-ID nothing that happened in between is missed."""
    await relay.record("t1")
    await relay.record("t2")
    await relay.record("t3")
    async with stream(relay, relay.token()) as events:
        await events.block()
        await relay.rate("t1")
        last = (await events.until("saved"))["id"]
    second = new_id()
    await relay.rate("t2", id=second)
    async with stream(relay, relay.token(), last=last) as events:
        await events.block()
        await events.until("saved", second)
        third = new_id()
        await relay.rate("t3", id=third)
        await events.until("saved", third)


async def test_nobody_hears_of_another(relay: Gateway):
    """Bob's stream stays silent about alice's ratings, and says so by telling his own first."""
    await relay.record("t1")
    await relay.record("t2", sub="bob")
    async with stream(relay, relay.token("bob")) as events:
        await events.block()
        await relay.rate("t1")
        mine = new_id()
        await relay.rate("t2", sub="bob", id=mine)
        assert (await events.until("saved"))["submission"]["id"] == mine


async def test_a_last_event_id_of_another_is_refused(relay: Gateway):
    """A position that was not issued to this owner is a 400 that names no more than that."""
    await relay.record("t1")
    await relay.record("t2", sub="bob")
    async with stream(relay, relay.token()) as events:
        last = (await events.block())["id"]
    headers = {"Last-Event-ID": last}
    answered = await relay.call("GET", "/api/feedback/events", token=relay.token("bob"), headers=headers)
    assert (answered.status, answered.code) == (400, "invalid_parameter")
    headers = {"Last-Event-ID": "made-up"}
    answered = await relay.call("GET", "/api/feedback/events", token=relay.token(), headers=headers)
    assert (answered.status, answered.code) == (400, "invalid_parameter")


async def test_a_stream_ends_with_its_token(relay: Gateway):
    """A token that lasts two seconds more gives a stream that ends by itself."""
    await relay.record("t1")
    token = relay.token(exp=int(relay.issuer.now()) + 2)
    async with stream(relay, token) as events:
        await events.block()
        assert await events.block() == {}


async def test_a_late_commit_is_not_skipped(relay: Gateway):
    """An event with a lower number that commits after one with a higher number is still told."""
    if relay.relay.db.dialect == "sqlite":
        pytest.skip("SQLite has one writer: numbers commit in order")
    await relay.record("t1")
    first = new_id()
    await relay.rate("t1", id=first)
    row = (await relay.rows("SELECT * FROM events ORDER BY seq DESC LIMIT 1"))[0]
    values = {name: row[name] for name in ("tenant", "owner", "kind", "ref", "state", "at")}
    insert = (
        "INSERT INTO events (tenant, owner, kind, ref, state, at)"
        " VALUES (:tenant, :owner, :kind, :ref, :state, :at) RETURNING seq, CAST(xid AS text) AS xid"
    )
    feed = relay.relay.feed
    position = await feed.tail()
    from sqlalchemy import text  # noqa: PLC0415

    async with relay.relay.db.write() as slow:
        early = (await slow.execute(text(insert), values)).one()
        async with relay.relay.db.write() as quick:
            late = (await quick.execute(text(insert), values)).one()
        assert await feed._read(row["owner"], position) == []
    told = [c.position.seq for c in await feed._read(row["owner"], position)]
    assert told == [early.seq, late.seq]


async def test_who_was_away_too_long_is_told_to_list_again(relay: Gateway):
    """What happened since a Last-Event-ID from before the pruning is not kept: one resync, and on from now."""
    for task in ("t1", "t2", "t3"):
        await relay.record(task)
    async with stream(relay, relay.token()) as events:
        last = (await events.block())["id"]
        await relay.rate("t1")
        await events.until("saved")
    await relay.rate("t2")
    await relay.change("UPDATE events SET at = at - 8 * 86400000")
    await Pruning(relay.relay.db, days=7).run()
    async with stream(relay, relay.token(), last=last) as events:
        assert await events.block() == {"id": last}
        told = await events.block()
        assert (told["event"], told["data"]) == ("resync", "{}")
        rated = new_id()
        await relay.rate("t3", id=rated)
        following = await events.until("saved")
        assert following["submission"]["id"] == rated
    async with stream(relay, relay.token(), last=told["id"]) as events:
        await events.block()
        assert (await events.until("saved"))["submission"]["id"] == rated
