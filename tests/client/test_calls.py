"""What a Workbench asks of the relay, through the client."""

import uuid

import pytest

from relay.client import NotSavedError, Provenance, RelayClient, RelayError
from tests.client.conftest import Tickets, answer, between, client_of
from tests.support.gateway import Gateway, new_id
from tests.support.peers import answers
from tests.support.specialist import Specialist, answering

FINISHED = Provenance(
    conversation_id="c1", answer_id="a1", role="specialist", status="completed", ran_as="client", subject="alice"
)


async def test_from_a_run_to_a_saved_rating(workbench: RelayClient, alice: RelayClient, literature: Specialist):
    """The whole way: record, ask for targets, rate under one's own UUID, see it saved where it belongs."""
    recorded = await workbench.record("literature", "t/1", FINISHED)
    assert (recorded.agent, recorded.task_id, recorded.status) == ("literature", "t/1", "completed")
    targets = await alice.answer_targets("a1")
    assert [(t.task_id, t.rateable) for t in targets.targets] == [("t/1", True)]
    mine = uuid.uuid4()
    stored = await alice.submit(mine, "t/1", "down", comment="Wrong unit", wait_seconds=10)
    assert (stored.id, stored.saved, stored.comment) == (str(mine), True, "Wrong unit")
    assert [post.json["id"] for post in literature.posts] == [str(mine)]
    assert await alice.show(mine) == await alice.wait_until_saved(mine, seconds=10)
    assert await alice.retry(mine) == await alice.show(mine)


async def test_lists_are_read_to_their_end(relay: Gateway, alice: RelayClient):
    """Pages follow each other by themselves; filters hold on each of them."""
    for number in range(5):
        await relay.record(f"t{number}", answerId=f"a{number}")
        await relay.rate(f"t{number}")
    assert [s.task_id async for s in alice.submissions(page_size=2)] == ["t4", "t3", "t2", "t1", "t0"]
    assert [s.task_id async for s in alice.submissions(task_id="t3", state="saved", agent="literature")] == ["t3"]
    answers = [a.answer_id async for a in alice.conversation_targets("c1", page_size=2)]
    assert answers == ["a0", "a1", "a2", "a3", "a4"]


async def test_a_refusal_is_a_typed_error(relay: Gateway, alice: RelayClient):
    """Code, status, detail, fields and what else the document has: to branch on, and nothing private in its text."""
    await relay.record("t1")
    first = new_id()
    await alice.submit(first, "t1", "up", comment="between us")
    with pytest.raises(RelayError) as second:
        await alice.submit(new_id(), "t1", "down")
    assert (second.value.code, second.value.status) == ("already_submitted", 409)
    assert second.value.extras["existing"]
    assert "between us" not in f"{second.value!r} {second.value}"
    with pytest.raises(RelayError) as wrong:
        await alice.submit(new_id(), "t1", "sideways")  # type: ignore[arg-type]
    assert [error.pointer for error in wrong.value.errors] == ["/rating"]


async def test_waiting_outlives_an_outage(relay: Gateway, alice: RelayClient, literature: Specialist):
    """A specialist that is down when the rating is made, and up again later: saved under the same UUID."""
    await relay.record("t1")
    await literature.stop()
    mine = new_id()
    assert not (await alice.submit(mine, "t1", "up", wait_seconds=0)).saved
    with pytest.raises(NotSavedError) as waiting:
        await alice.wait_until_saved(mine, seconds=0)
    assert not waiting.value.submission.final
    await literature.start()
    assert (await alice.wait_until_saved(mine, seconds=60)).saved
    assert {post.json["id"] for post in literature.posts} == {mine}


async def test_waiting_outlives_the_relay(relay: Gateway):
    """A relay that is away is waited for as well: ``seconds`` bounds it, not the deadline of one call."""
    await relay.record("t1")
    mine = new_id()
    await relay.rate("t1", id=mine)
    away = answers(answer("502 Bad Gateway", body=b"<html>"))
    async with between(relay.port, away, away) as peer, client_of(peer.port, relay.token(), seconds=0) as alice:
        assert (await alice.wait_until_saved(mine, seconds=60)).saved
    assert len(peer.received) == 3


@pytest.mark.parametrize(
    "address",
    ["relay.example.org", "ftp://relay.example.org", "https://a@relay.example.org", "https://relay.example.org?a=b"],
)
def test_an_address_that_is_none(address: str):
    """Refused before anything is sent, with what it has to be."""
    with pytest.raises(ValueError, match="the relay's address"):
        RelayClient(address, Tickets("a-token"))


def test_a_token_goes_in_the_clear_only_where_it_is_said():
    """Plain HTTP is for this machine, or for a way that somebody has called private."""
    with pytest.raises(ValueError, match="plain_http"):
        RelayClient("http://relay.internal:8080", Tickets("a-token"))
    for known in (
        RelayClient("http://relay.internal:8080/", Tickets("a-token"), plain_http=True),
        RelayClient("http://[::1]:8080", Tickets("a-token")),
    ):
        assert "a-token" not in repr(known)


async def test_waiting_ends_when_nothing_more_comes(relay: Gateway, alice: RelayClient, literature: Specialist):
    """A rating that the specialist refused for good is never reported as saved."""
    await relay.record("t1")
    literature.behave = answering(422, {"error": "no"})
    mine = new_id()
    await alice.submit(mine, "t1", "up")
    with pytest.raises(NotSavedError) as ended:
        await alice.wait_until_saved(mine, seconds=60)
    assert (ended.value.submission.state, ended.value.submission.final) == ("rejected", True)
