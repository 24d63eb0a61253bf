"""Agents in the console: how they fare, and decisions about them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.console import SCOPES, Browser
from tests.support.consoled import Consoled, consoled


async def propose(relay: Consoled) -> None:
    proposal = {"why": "they asked for it", "limits": {"inFlight": 4}}
    await relay.call("POST", "/api/operator/agents/literature/proposals", proposal, user="operator")


async def test_held_and_resumed(relay: Consoled, operator: Browser):
    """A hold keeps what is rated, shows with its reason and its maker, and is over when resumed; twice is 409."""
    page = await operator.get("/console/agents/literature")
    held = await operator.post("/console/agents/literature/hold", {"csrf": page.csrf, "why": "they are moving"})
    assert "Held by <code>ok_" in held.text
    rated = await relay.rate("t1")
    assert rated["state"] == "held"
    again = await operator.post("/console/agents/literature/hold", {"csrf": page.csrf, "why": "they are moving"})
    assert (again.status, "It is <strong>held</strong> now." in again.text) == (409, True)
    resumed = await operator.post("/console/agents/literature/resume", {"csrf": page.csrf, "why": "they have moved"})
    assert "1 set free" in resumed.text
    await relay.reached(rated["id"], "saved")


async def test_a_version_is_approved_and_revoked(relay: Consoled, operator: Browser):
    """What is proposed is offered for approval, and says afterwards who approved it, when and why."""
    await propose(relay)
    page = await operator.get("/console/agents/literature")
    assert 'formaction="/console/agents/literature/versions/2/approve"' in page.text
    done = await operator.post(
        "/console/agents/literature/versions/2/approve", {"csrf": page.csrf, "why": "agreed with them"}
    )
    assert "Decided: version 2 is in force" in done.text
    assert ": agreed with them</dd>" in done.text
    gone = await operator.post(
        "/console/agents/literature/versions/2/revoke", {"csrf": page.csrf, "why": "not them after all"}
    )
    assert "Decided: nothing is in force" in gone.text
    missing = await operator.post("/console/agents/literature/versions/9/approve", {"csrf": page.csrf, "why": "so"})
    assert missing.status == 404


async def test_four_eyes(tmp_path: Path, sqlite_database_url: str):
    """Who proposed a version, at a terminal, reads why they cannot approve it here; it stays proposed."""
    async with (
        consoled(tmp_path, sqlite_database_url, registry="four_eyes = true") as relay,
        relay.world.browser() as operator,
    ):
        await operator.sign_in()
        page = await operator.get("/console/agents/literature")
        await propose(relay)
        refused = await operator.post(
            "/console/agents/literature/versions/2/approve", {"csrf": page.csrf, "why": "mine"}
        )
        assert (refused.status, refused.heading) == (409, "Nothing was done")
        assert "has to be approved by another than its proposer" in refused.text
        states = await relay.world.rows("SELECT state FROM registrations WHERE agent = 'literature' ORDER BY version")
        assert [row["state"] for row in states] == ["approved", "proposed"]


@pytest.fixture
async def looking(tmp_path: Path, sqlite_database_url: str) -> AsyncIterator[tuple[Consoled, Browser]]:
    """Somebody who may look, and nothing else."""
    async with consoled(tmp_path, sqlite_database_url, scopes=SCOPES[:3]) as relay, relay.world.browser() as operator:
        await operator.sign_in()
        yield relay, operator


async def test_who_may_only_look(looking: tuple[Consoled, Browser]):
    """They are offered nothing to do, and are refused what they do anyway."""
    relay, operator = looking
    await propose(relay)
    page = await operator.get("/console/agents/literature")
    assert "<button>Hold" not in page.text
    assert "formaction" not in page.text
    assert "takes <code>registry:admin</code>" in page.text
    for path in ("hold", "versions/2/approve"):
        refused = await operator.post(f"/console/agents/literature/{path}", {"csrf": page.csrf, "why": "so"})
        assert (refused.status, "insufficient_scope" in refused.text) == (403, True)
    assert (await operator.get("/console/submissions/bulk/retry")).status == 403
    assert "Retry all" not in (await operator.get("/console/submissions")).text
