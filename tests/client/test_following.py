"""The events through the client: nothing lost, whatever happens to the connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from relay.client import Change, RelayClient, RelayError, Resync
from relay.retention.pruning import Pruning
from tests.client.conftest import Tickets, answer, between, client_of, forward
from tests.support.gateway import Gateway, new_id
from tests.support.peers import Line, answers

Events = AsyncIterator[Change | Resync]


@pytest.fixture(autouse=True)
async def known(relay: Gateway) -> None:
    """Alice has been here before. The stream of somebody of whom nothing is stored begins anew every 15 seconds."""
    await relay.record("t0")


async def saved(events: Events, submission: str) -> str:
    """Read until this submission is saved; the id of that event."""
    async for event in events:
        assert isinstance(event, Change), "nothing was lost, so there is nothing to list again"
        if event.submission.id == submission and event.submission.saved:
            return event.id
    raise AssertionError("the events ended")


async def beginning(events: Events) -> str:
    """The place at which these events begin."""
    first = await anext(events)
    assert isinstance(first, Resync)
    return first.id


async def tell(relay: Gateway, task: str) -> str:
    submission = new_id()
    await relay.record(task)
    await relay.rate(task, id=submission)
    return submission


async def test_list_then_follow(relay: Gateway, alice: RelayClient):
    """A first reader is told to list once the stream is open: what changes before they have listed is told as well."""
    before = await tell(relay, "t0")
    async with aclosing(alice.events()) as events:
        assert isinstance(await anext(events), Resync)
        meanwhile = await tell(relay, "t1")
        assert [s.id async for s in alice.submissions()] == [meanwhile, before]
        await saved(events, meanwhile)


async def test_a_reader_goes_on_where_it_was(relay: Gateway, alice: RelayClient):
    """With the id of what was dealt with, a later reader is told everything since, and nothing from before."""
    await tell(relay, "t1")
    async with aclosing(alice.events()) as events:
        place = await beginning(events)
    missed = await tell(relay, "t2")
    async with aclosing(alice.events(last_event_id=place)) as again:
        told = await anext(again)
    assert isinstance(told, Change)
    assert told.submission == await alice.show(missed)


async def test_a_stream_that_is_cut_within_an_event(relay: Gateway, alice: RelayClient):
    """Half an event counts as none: the reader resumes before it, and hears of it, and of what came meanwhile."""
    async with aclosing(alice.events()) as events:
        place = await beginning(events)
    first = await tell(relay, "t1")
    half: asyncio.Future[bytes] = asyncio.Future()

    async def cut(line: Line) -> None:
        seen = bytearray()

        def take(data: bytes) -> bool:
            seen.extend(data)
            begun = seen.find(b"event: feedback")
            if begun < 0 or len(seen) < begun + 200:
                return False
            half.set_result(bytes(seen[: begun + 200]))
            return True

        await forward(relay.port, await line.receive(), take)
        await line.send(half.result())
        line.reset()

    async def on(line: Line) -> None:
        await pass_on(relay.port, line)

    async with (
        between(relay.port, cut, on) as peer,
        client_of(peer.port, relay.token()) as other,
        aclosing(other.events(last_event_id=place)) as events,
    ):
        await saved(events, first)
        await saved(events, await tell(relay, "t2"))
    resumed = [received.head.count(f"Last-Event-ID: {place}\r\n".encode()) for received in peer.received]
    assert resumed == [1, 1]


async def pass_on(port: int, line: Line) -> None:
    """Hand over an endless answer as it comes."""
    received = await line.receive()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(received.head + received.body)
    try:
        while data := await reader.read(65_536):
            await line.send(data)
    finally:
        writer.close()


async def test_a_place_that_is_not_known(relay: Gateway, alice: RelayClient):
    """The relay refuses the id: the reader is told to list again, once, and hears what happens from then on."""
    await tell(relay, "t0")
    async with aclosing(alice.events(last_event_id="made-up")) as events:
        await beginning(events)
        await saved(events, await tell(relay, "t1"))


async def test_a_place_that_is_too_old(relay: Gateway, alice: RelayClient):
    """What happened since is thrown away by now: list again, and go on from there."""
    async with aclosing(alice.events()) as events:
        await beginning(events)
        last = await saved(events, await tell(relay, "t1"))
    await tell(relay, "t2")
    await relay.change("UPDATE events SET at = at - 8 * 86400000")
    await Pruning(relay.relay.db, days=7).run()
    async with aclosing(alice.events(last_event_id=last)) as events:
        assert await beginning(events) != last


async def test_a_stream_outlives_its_token(relay: Gateway):
    """The stream ends with the first token; the second one goes on with it, and nothing in between is missed."""
    tickets = Tickets(relay.token(exp=int(relay.issuer.now()) + 2), relay.token())
    async with client_of(relay.port, tickets) as alice, aclosing(alice.events()) as events:
        await beginning(events)
        await saved(events, await tell(relay, "t1"))
        while tickets.given < 2:
            await saved(events, await tell(relay, new_id()))
        await saved(events, await tell(relay, "t2"))
    assert tickets.given == 2


async def test_events_that_are_refused():
    """What does not pass ends the events with the relay's own words, and is not asked for again and again."""
    body = b'{"code":"insufficient_scope","status":403,"detail":"The token needs feedback:read."}'
    async with (
        between(0, answers(answer("403 Forbidden", body=body))) as peer,
        client_of(peer.port, "a-token") as alice,
    ):
        with pytest.raises(RelayError) as refused:
            await anext(alice.events())
    assert (refused.value.code, len(peer.received)) == ("insufficient_scope", 1)
