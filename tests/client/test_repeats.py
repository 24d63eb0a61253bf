"""What is sent again, and what is not: the same bytes, within a deadline, with a token that is asked for once more."""

import asyncio

import aiohttp
import pytest

from relay.client import AnswerError, RelayClient, RelayError, TokenError, UnreachableError
from tests.client.conftest import Tickets, answer, between, client_of, whole_answer
from tests.support.gateway import Gateway, new_id
from tests.support.peers import Line, answers
from tests.support.specialist import Held, Specialist

UNAVAILABLE = answer("503 Service Unavailable", "Retry-After: 0", "Content-Type: text/html", body=b"<p>starting</p>")


async def test_an_answer_lost_after_the_commit(relay: Gateway, literature: Specialist):
    """The repeat has the very same bytes, and gets what was stored; the specialist has one rating."""
    await relay.record("t1")

    async def lose(line: Line) -> None:
        await whole_answer(relay.port, await line.receive())
        line.reset()

    mine = new_id()
    async with between(relay.port, lose) as peer, client_of(peer.port, relay.token()) as alice:
        stored = await alice.submit(mine, "t1", "up", comment="once", wait_seconds=10)
    assert (stored.id, stored.saved) == (mine, True)
    assert len(peer.received) == 2
    assert peer.received[0] == peer.received[1]
    assert {post.json["id"] for post in literature.posts} == {mine}
    assert len(await relay.rows("SELECT 1 FROM submissions")) == 1


@pytest.mark.parametrize("status", ["503 Service Unavailable", "429 Too Many Requests", "502 Bad Gateway"])
async def test_what_passes_is_repeated(relay: Gateway, status: str):
    """A relay or proxy that has no room now is asked again."""
    await relay.record("t1")
    passing = answers(answer(status, "Retry-After: 0"))
    async with between(relay.port, passing, passing) as peer, client_of(peer.port, relay.token()) as alice:
        assert (await alice.submit(new_id(), "t1", "up")).state
    assert peer.received[0] == peer.received[1] == peer.received[2]


async def test_a_wait_beyond_the_deadline_is_not_begun():
    """A Retry-After that is later than the deadline ends the call at once, and the error says how long it is."""
    body = b'{"code":"rate_limited","status":429,"detail":"Slower."}'
    late = answers(answer("429 Too Many Requests", "Retry-After: 3600", body=body))
    async with between(0, late) as peer, client_of(peer.port, "a-token") as alice:
        with pytest.raises(RelayError) as refused:
            await alice.show(new_id())
    assert (refused.value.code, refused.value.retry_after, len(peer.received)) == ("rate_limited", 3600.0, 1)


async def test_a_relay_that_never_answers():
    """The deadline bounds a call whose peer takes the request and says nothing."""

    async def silent(line: Line) -> None:
        await line.receive()
        await line.hold()

    async with between(0, silent) as peer, client_of(peer.port, "a-token", seconds=0.5) as alice:
        with pytest.raises(UnreachableError) as failed:
            await alice.submit(new_id(), "t1", "up", comment="between us")
    assert "between us" not in str(failed.value)
    assert "a-token" not in str(failed.value)


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "404 Not Found", "500 Internal Server Error"])
async def test_what_does_not_pass_is_not_repeated(status: str):
    """An answer that is no relay's ends the call; a redirect is not followed with the token."""
    broken = answers(answer(status, "Location: /elsewhere", body=b"<html>"))
    async with between(0, broken) as peer, client_of(peer.port, "a-token") as alice:
        with pytest.raises(AnswerError):
            await alice.show(new_id())
    assert len(peer.received) == 1


async def test_a_refused_token_is_replaced_once(relay: Gateway):
    """401, then a fresh token: the call succeeds, and the fresh token stays in use."""
    await relay.record("t1")
    tickets = Tickets(relay.token(exp=1), relay.token())
    async with client_of(relay.port, tickets) as alice:
        await alice.answer_targets("a1")
        await alice.answer_targets("a1")
    assert tickets.given == 2


async def test_a_token_that_never_works(relay: Gateway):
    """Two tokens are refused and the call ends; the next call asks anew."""
    tickets = Tickets("made-up")
    async with client_of(relay.port, tickets) as alice:
        for given in (2, 4):
            with pytest.raises(RelayError) as refused:
                await alice.show(new_id())
            assert (refused.value.code, tickets.given) == ("unauthenticated", given)


@pytest.mark.parametrize("failure", [aiohttp.ClientConnectionError("an issuer"), TimeoutError(), OSError("no file")])
async def test_no_token_to_send(failure: Exception):
    """An issuer that is away is not taken for the relay: nothing is sent or repeated, and the cause is there."""
    asked = 0

    async def nobody() -> str:
        nonlocal asked
        asked += 1
        raise failure

    async with between(0) as peer, client_of(peer.port, nobody) as alice:
        with pytest.raises(TokenError) as failed:
            await alice.show(new_id())
    assert (asked, len(peer.received), failed.value.__cause__) == (1, 0, failure)


async def test_a_session_of_the_callers_own(relay: Gateway):
    """It is left open; and a refusal is the relay's own, whatever the session does with them elsewhere."""
    async with aiohttp.ClientSession(raise_for_status=True) as session:  # noqa: TID251 - a caller's
        async with RelayClient(f"http://localhost:{relay.port}", Tickets(relay.token()), session=session) as alice:
            with pytest.raises(RelayError, match="submission_not_found"):
                await alice.show(new_id())
        assert not session.closed


async def test_the_wait_at_the_relay_comes_on_top(relay: Gateway, literature: Specialist):
    """A try that may take no time by itself still lasts for as long as the relay was asked to wait."""
    await relay.record("t1")
    held = Held()
    literature.behave = held
    async with (
        between(relay.port) as peer,
        RelayClient(f"http://localhost:{peer.port}", Tickets(relay.token()), try_seconds=0.01) as alice,
        asyncio.TaskGroup() as group,
    ):
        rating = group.create_task(alice.submit(new_id(), "t1", "up", wait_seconds=10))
        await literature.wait_for_posts(1)
        held.let_go()
        assert (await rating).saved
    assert len(peer.received) == 1
