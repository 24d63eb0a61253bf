"""Analytics over HTTP: whose they are, and what is refused."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.gateway import Gateway, small_world
from tests.support.specialist import answering

ANALYTICS = "/api/analytics"


@pytest.fixture
async def relay(tmp_path: Path, database_url: str) -> AsyncIterator[Gateway]:
    """Alice rated up and down, Bob was turned down by the specialist."""
    async with small_world(tmp_path, database_url, agents=("literature",)) as (running, specialists):
        for task, sub, rating in (("t-1", "alice", "up"), ("t-2", "alice", "down")):
            await running.record(task, sub=sub)
            assert (await running.rate(task, sub=sub, rating=rating)).status == 201
        specialists["literature"].behave = answering(422)
        await running.record("t-3", sub="bob")
        await running.rate("t-3", sub="bob")
        yield running


async def test_own_and_all(relay: Gateway):
    """A person counts their own, an operator the tenant's, and each total is that of the list."""
    own = (await relay.call("GET", ANALYTICS, token=relay.token("alice"))).json
    assert (own["scope"], own["by"], own["zone"], own["items"]) == ("own", None, "UTC", [])
    assert (own["total"]["count"], own["total"]["up"], own["total"]["down"]) == (2, 1, 1)
    assert own["total"]["upShare"]["share"] == 0.5
    assert own["total"]["timeToSaved"]["p50Ms"] >= 0
    mine = (await relay.call("GET", "/api/feedback", token=relay.token("alice"))).json["items"]
    assert len(mine) == own["total"]["count"]

    operator = relay.token("olga", "operator:read")
    everything = (await relay.call("GET", f"{ANALYTICS}?scope=all&by=state", token=operator)).json
    assert everything["total"]["states"] == {"rejected": 1, "saved": 2}
    assert [(item["key"], item["figures"]["count"]) for item in everything["items"]] == [("rejected", 1), ("saved", 2)]
    assert sum(each["count"] for each in everything["total"]["failures"]) == 1
    listed = (await relay.call("GET", "/api/operator/submissions?state=saved", token=operator)).json["total"]
    saved = (await relay.call("GET", f"{ANALYTICS}?scope=all&state=saved", token=operator)).json["total"]
    assert saved["count"] == listed == 2
    assert saved["failures"] == []


async def test_nothing_has_neither_share_nor_times(relay: Gateway):
    """Of somebody who never rated, and of another tenant."""
    for token, scope in ((relay.token("carol"), "own"), (relay.token("olga", "operator:read", tenant="other"), "all")):
        found = (await relay.call("GET", f"{ANALYTICS}?scope={scope}&by=day&zone=Asia/Tokyo", token=token)).json
        assert (found["total"]["count"], found["total"]["upShare"], found["total"]["timeToSaved"]) == (0, None, None)
        assert (found["items"], found["zone"]) == ([], "Asia/Tokyo")


async def test_a_scope_takes_its_own_right(relay: Gateway):
    """Who rates does not see the tenant; an operator has no own without the scope of a person; a machine is none."""
    for token, scope in (
        (relay.token("alice"), "all"),
        (relay.token("olga", "operator:read"), "own"),
        (relay.token("workbench", "operator:read"), "all"),
    ):
        refused = await relay.call("GET", f"{ANALYTICS}?scope={scope}", token=token)
        assert (refused.status, refused.code) == (403, "insufficient_scope")
    assert (await relay.call("GET", ANALYTICS)).status == 401


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("zone=Mars/Olympus", "zone"),
        ("zone=America", "zone"),
        ("zone=../UTC", "zone"),
        ("zone=", "zone"),
        ("by=owner", "by"),
        ("scope=everybody", "scope"),
        ("state=lost", "state"),
        ("since=2026-03-01T00:00:00", "since"),
        ("owner=ok_1", "owner"),
        ("limit=10", "limit"),
    ],
    ids=["unknown zone", "a directory", "a path", "no name", "by", "scope", "state", "since", "owner", "limit"],
)
async def test_a_bad_parameter_is_named(relay: Gateway, query: str, parameter: str):
    """400, in words that name it."""
    refused = await relay.call("GET", f"{ANALYTICS}?{query}", token=relay.token("alice"))
    assert (refused.status, refused.code, refused.json["parameter"]) == (400, "invalid_parameter", parameter)
