"""The events through the client: nothing lost, nothing told twice, whatever happens to the connection."""

from collections.abc import AsyncIterator

from relay.client import Change, RelayClient, Resync
from tests.client.conftest import Tickets, between, client_of, forward
from tests.support.gateway import Gateway, new_id
from tests.support.peers import Line


async def saved(events: AsyncIterator[Change | Resync], submission: str) -> str:
    """Read until this submission is saved; the id of that event."""
    async for event in events:
        if isinstance(event, Change) and event.submission.id == submission and event.submission.saved:
            return event.id
    raise AssertionError("the events ended")


async def tell(relay: Gateway, task: str) -> str:
    submission = new_id()
    await relay.record(task)
    await relay.rate(task, id=submission)
    return submission


async def test_a_reader_goes_on_where_it_was(relay: Gateway, alice: RelayClient):
    """With the id of what was dealt with, a later reader is told everything since, and nothing from before."""
    first = await tell(relay, "t0")
    place = (await relay.call("GET", f"/api/feedback/{first}", token=relay.token())).json["id"]
    assert place == first
    events = alice.events(last_event_id=await _beginning(relay))
    second = await tell(relay, "t1")
    last = await saved(events, second)
    await events.aclose()  # type: ignore[attr-defined]
    third = await tell(relay, "t2")
    again = alice.events(last_event_id=last)
    told = await anext(again)
    assert isinstance(told, Change)
    assert told.submission.id == third
    await again.aclose()  # type: ignore[attr-defined]


async def _beginning(relay: Gateway) -> str:
    """Where alice's events stand now."""
    from tests.feedback.test_events import stream  # noqa: PLC0415

    async with stream(relay, relay.token()) as reader:
        return (await reader.block())["id"]


async def test_a_stream_that_is_cut_within_an_event(relay: Gateway):
    """Half an event counts as none: after the reconnection it is told, once, with those that came meanwhile."""
    place = await _place_of_alice(relay)
    first = await tell(relay, "t1")
    seen = bytearray()

    async def cut(line: Line) -> None:
        received = await line.receive()

        def take(data: bytes) -> bool:
            seen.extend(data)
            return b"event: feedback" in seen and seen.index(b"event: feedback") + 200 < len(seen)

        await forward(relay.port, received, take)
        await line.send(bytes(seen[: seen.index(b"event: feedback") + 200]))
        line.reset()

    async def on(line: Line) -> None:
        await _pass_on(relay.port, line)

    async with between(relay.port, cut, on) as peer, client_of(peer.port, relay.token()) as alice:
        events = alice.events(last_event_id=place)
        await saved(events, first)
        second = await tell(relay, "t2")
        after = await anext(events)
        assert isinstance(after, Change)
        assert after.submission.id == second
        await events.aclose()  # type: ignore[attr-defined]
    assert len(peer.received) == 2


async def _place_of_alice(relay: Gateway) -> str:
    await tell(relay, "t-before")
    return await _beginning(relay)


async def _pass_on(port: int, line: Line) -> None:
    """Hand over an endless answer as it comes."""
    import asyncio  # noqa: PLC0415

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
    events = alice.events(last_event_id="made-up")
    assert isinstance(await anext(events), Resync)
    submission = await tell(relay, "t1")
    await saved(events, submission)
    await events.aclose()  # type: ignore[attr-defined]


async def test_a_stream_outlives_its_token(relay: Gateway):
    """The stream ends with the first token; the second one goes on with it, and nothing in between is missed."""
    await tell(relay, "t0")
    tickets = Tickets(relay.token(exp=int(relay.issuer.now()) + 2), relay.token())
    async with client_of(relay.port) as alice:
        alice._tokens._get = tickets
        events = alice.events(last_event_id=await _beginning(relay))
        await saved(events, await tell(relay, "t1"))
        while tickets.given < 2:
            await saved(events, await tell(relay, new_id()))
        await saved(events, await tell(relay, "t2"))
        await events.aclose()  # type: ignore[attr-defined]
    assert tickets.given == 2
