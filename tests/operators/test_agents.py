"""Decisions about agents, by the configuration and by operators: what each does, and what is written down of it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from registry.model import AgentId, StaticBearer, Version
from registry.registrations import Declaration, NotApplicableError, UnknownAgentError
from relay.operators.agents import Agents
from relay.storage.engine import Database
from tests.delivery.conftest import TENANT, Outbox, declaration

LITERATURE = AgentId("literature")
V1, V2, V3, V4 = (Version(n) for n in range(1, 5))
CHEMISTRY = declaration("chemistry")
HERE = declaration("literature")
MOVED = declaration("literature", "https://moved.example.org")
RENAMED = replace(HERE, name="Literature, renamed")
OTHER_SECRET = StaticBearer(issuer="https://login.example.org", client_id="workbench", token_file="another")


@pytest.fixture
async def agents(outbox: Outbox) -> Agents:
    """Literature and chemistry are configured, approved at version 1."""
    return outbox.agents


async def seed(agents: Agents, *declarations: Declaration) -> None:
    """A start of the relay with literature as declared, beside chemistry."""
    await agents.seed([*declarations, CHEMISTRY])


async def standing(agents: Agents) -> tuple[int | None, list[str]]:
    """The version of literature in force, and the state of each of its versions."""
    approved = (await agents.snapshot())[LITERATURE].approved
    return approved and approved.version, [row["state"] for row in await agents.history(LITERATURE)]


async def audited(outbox: Outbox) -> list[dict[str, Any]]:
    """What the audit log says of literature, oldest first."""
    rows = await outbox.rows("SELECT * FROM audit_log WHERE target = 'literature' ORDER BY seq")
    return [{**r, "before": json.loads(r["before"] or "null"), "after": json.loads(r["after"])} for r in rows]


def version_one(**changes: Any) -> dict[str, Any]:
    return {"version": 1, "origin": HERE.origin, "protocol": "roblox-v1", "lineage": 1, **changes}


# The configuration.


async def test_a_new_agent_is_approved_by_configuration(outbox: Outbox, agents: Agents):
    """The first start: in force at once, by the configuration's word, and written down as such."""
    assert await standing(agents) == (1, ["approved"])
    [row] = await agents.history(LITERATURE)
    assert (row["source"], row["proposed_by"], row["approved_by"]) == ("configuration", *("configuration",) * 2)
    [entry] = await audited(outbox)
    assert (entry["actor"], entry["action"], entry["tenant"], entry["why"]) == (
        "configuration",
        "agent.configured",
        None,
        None,
    )
    assert entry["before"] is None
    assert entry["after"] == {"inForce": version_one(), "versions": {"1": "approved"}}
    assert entry["at"] == row["approved_at"]


async def test_a_start_with_the_same_configuration_changes_nothing(outbox: Outbox, agents: Agents):
    """No version, no revision, no entry: however often it starts."""
    before = await agents.snapshot()
    for _ in range(3):
        await seed(agents, HERE)
    assert await agents.snapshot() == before
    assert len(await audited(outbox)) == 1


@pytest.mark.parametrize(
    "changed", [RENAMED, replace(HERE, credentials=(OTHER_SECRET,))], ids=["another name", "another credential"]
)
async def test_a_change_at_the_same_destination_is_approved_as_a_new_version(
    outbox: Outbox, agents: Agents, changed: Declaration
):
    """Origin and protocol stand: the lineage does too, and what waits goes on."""
    delivery = await outbox.place()
    await seed(agents, changed)
    assert await standing(agents) == (2, ["superseded", "approved"])
    agent = (await agents.snapshot())[LITERATURE]
    assert (agent.name, agent.lineages) == (changed.name, {V1: 1, V2: 1})
    assert agent.approved is not None
    assert agent.approved.credentials == changed.credentials
    assert (await outbox.row(delivery))["state"] == "pending"
    entry = (await audited(outbox))[-1]
    assert (entry["action"], entry["before"]["inForce"]["version"]) == ("agent.configured", 1)
    assert entry["after"]["inForce"] == version_one(version=2)


@pytest.mark.parametrize("changed", [MOVED, replace(HERE, protocol=None)], ids=["another origin", "another protocol"])
async def test_another_destination_is_only_proposed_and_its_deliveries_are_held(
    outbox: Outbox, agents: Agents, changed: Declaration
):
    """Nothing goes to the new place nor to the old one until an operator decides; later starts ask for no more."""
    waiting, sending = await outbox.place(), await outbox.place(state="sending")
    for _ in range(2):
        await seed(agents, changed)
    assert await standing(agents) == (None, ["approved", "proposed"])
    assert (await outbox.row(waiting))["state"] == "held"
    assert (await outbox.row(sending))["state"] == "sending"
    entry = (await audited(outbox))[-1]
    assert (entry["action"], entry["actor"]) == ("agent.proposed", "configuration")
    assert (entry["before"]["inForce"], entry["after"]["inForce"]) == (version_one(), None)


async def test_back_at_the_last_approved_origin_it_is_approved_again(outbox: Outbox, agents: Agents):
    """A mistaken edit is undone by undoing it: the proposal is withdrawn, and what was held goes out. Made again, it is
    proposed again.
    """
    delivery = await outbox.place()
    await seed(agents, MOVED)
    assert (await outbox.row(delivery))["state"] == "held"
    await seed(agents, HERE)
    assert await standing(agents) == (1, ["approved", "withdrawn"])
    assert (await outbox.row(delivery))["state"] == "pending"
    entry = (await audited(outbox))[-1]
    assert (entry["action"], entry["actor"]) == ("agent.withdraw", "configuration")
    await seed(agents, MOVED)
    assert await standing(agents) == (None, ["approved", "withdrawn", "proposed"])
    await seed(agents, replace(HERE, name="Renamed"))
    assert await standing(agents) == (4, ["superseded", "withdrawn", "withdrawn", "approved"])
    assert (await agents.snapshot())[LITERATURE].lineages == {V1: 1, V2: 2, V3: 2, V4: 1}


async def test_an_agent_that_leaves_the_configuration_is_revoked_and_comes_back(outbox: Outbox, agents: Agents):
    """Out of the file, out of force, by the configuration's own word; declared again, it is approved again."""
    delivery = await outbox.place()
    for _ in range(2):
        await seed(agents)
    assert await standing(agents) == (None, ["revoked"])
    [row] = await agents.history(LITERATURE)
    assert row["revoked_by"] == "configuration"
    assert (await outbox.row(delivery))["state"] == "held"
    entry = (await audited(outbox))[-1]
    assert (entry["action"], entry["why"]) == ("agent.revoke", "no longer in the configuration")
    await seed(agents, HERE)
    assert await standing(agents) == (2, ["revoked", "approved"])
    assert (await outbox.row(delivery))["state"] == "pending"
    assert len(await audited(outbox)) == 3
    other = (await agents.snapshot())[AgentId("chemistry")].approved
    assert other is not None


async def test_an_agent_that_comes_back_elsewhere_is_only_proposed(agents: Agents):
    """Leaving and coming back is no way round the approval of a new origin."""
    await seed(agents)
    await seed(agents, MOVED)
    assert await standing(agents) == (None, ["revoked", "proposed"])


async def test_what_an_operator_revoked_stays_revoked(agents: Agents):
    """Whatever the configuration says then: the same, out and in again, other names one after the other."""
    await agents.revoke(LITERATURE, "ops", "it leaks")
    await seed(agents, HERE)
    await seed(agents)
    await seed(agents, HERE)
    assert await standing(agents) == (None, ["revoked"])
    await seed(agents, RENAMED)
    await seed(agents, replace(HERE, name="Renamed again"))
    await seed(agents, HERE)
    assert await standing(agents) == (None, ["revoked", "withdrawn", "withdrawn", "proposed"])
    await agents.approve(LITERATURE, V4, "ops", "fixed")
    await seed(agents, RENAMED)
    assert (await standing(agents))[0] == 5


async def test_a_move_that_an_operator_refused_does_not_come_back_by_another_way(agents: Agents):
    """The proposal was revoked: neither a new name there nor the way back is the configuration's to approve."""
    await seed(agents, MOVED)
    await agents.revoke(LITERATURE, "ops", "not ours")
    await seed(agents, replace(MOVED, name="Renamed"))
    await seed(agents, replace(MOVED, name="Renamed again"))
    await seed(agents, HERE)
    await seed(agents, RENAMED)
    assert (await standing(agents))[0] is None


async def test_what_an_operator_put_back_in_force_is_what_counts_as_approved_last(agents: Agents):
    """An operator goes back to the first origin: a change at the second is not approved for having been there once."""
    await seed(agents, MOVED)
    await agents.approve(LITERATURE, V2, "ops", "moved")
    await agents.approve(LITERATURE, V1, "ops", "moved back")
    await seed(agents, MOVED)
    assert await standing(agents) == (1, ["approved", "superseded"])
    await seed(agents, replace(MOVED, name="Renamed"))
    assert await standing(agents) == (None, ["approved", "superseded", "proposed"])


async def test_a_hold_outlives_a_start(outbox: Outbox, agents: Agents):
    """The configuration says nothing of holds: a new version of a held agent is held as well."""
    delivery = await outbox.place()
    await agents.hold(TENANT, LITERATURE, "ops", "maintenance")
    await seed(agents, RENAMED)
    assert (await agents.snapshot())[LITERATURE].held_by == {TENANT}
    assert (await outbox.row(delivery))["state"] == "held"


# Processes that start together.


@asynccontextmanager
async def processes(url: str, count: int) -> AsyncIterator[list[Agents]]:
    """Several views of one database, as several processes have them."""
    async with AsyncExitStack() as stack:
        databases = [Database.open(url, pool_size=2) for _ in range(count)]
        for database in databases:
            stack.push_async_callback(database.close)
        yield [Agents(database) for database in databases]


async def together(known: list[Agents], *declarations: Declaration) -> None:
    await asyncio.gather(*(agents.seed(declarations) for agents in known))


async def test_processes_that_start_together_make_one_version_of_each_change(database_url: str):
    """New, changed, moved, gone and back: each is decided once, whoever is first, and nobody fails to start."""
    async with processes(database_url, 4) as known:
        for declarations in ([HERE, CHEMISTRY], [RENAMED, CHEMISTRY], [CHEMISTRY], [HERE, CHEMISTRY]):
            await together(known, *declarations)
        await together(known, MOVED, CHEMISTRY)
        assert await standing(known[0]) == (None, ["superseded", "revoked", "approved", "proposed"])
        assert len(await known[0].history(AgentId("chemistry"))) == 1
        async with known[0]._db.read() as connection:
            rows = (await connection.exec_driver_sql("SELECT action FROM audit_log")).all()
    assert Counter(row[0] for row in rows) == {"agent.configured": 4, "agent.revoke": 1, "agent.proposed": 1}


async def test_decisions_at_once_are_written_down_one_after_the_other(outbox: Outbox, agents: Agents):
    """What each entry says was before is what the entry before it says came after."""
    await seed(agents, RENAMED)
    begun = len(await audited(outbox))
    acts = [agents.approve(LITERATURE, Version(1 + n % 2), "ops", str(n)) for n in range(10)]
    await asyncio.gather(*acts, return_exceptions=True)
    entries = (await audited(outbox))[begun - 1 :]
    assert len(entries) > 2
    for earlier, later in pairwise(entries):
        assert later["before"] == earlier["after"]
        assert later["after"]["inForce"] != later["before"]["inForce"]


# Operators.

Act = Callable[[Agents], Awaitable[Any]]


async def test_each_decision_is_written_down_with_before_and_after(outbox: Outbox, agents: Agents):
    """Who, what, of whom, for which tenant, how it stood, how it stands, and why; the outcome says the same."""
    delivery = await outbox.place()
    await seed(agents, MOVED)
    begun = len(await audited(outbox))
    outcomes = [
        await agents.approve(LITERATURE, V2, "olga", "checked"),
        await agents.hold(TENANT, LITERATURE, "otto", "maintenance"),
        await agents.declare_same(LITERATURE, V1, "olga", "the same team"),
        await agents.resume(TENANT, LITERATURE, "otto", None),
        await agents.hold_version(LITERATURE, V2, "olga", "it leaks"),
        await agents.resume_version(LITERATURE, V2, "olga", None),
        await agents.propose(replace(MOVED, name="Renamed"), "peter", "a better name"),
        await agents.withdraw(LITERATURE, V3, "olga", "no"),
        await agents.revoke(LITERATURE, "olga", "gone"),
    ]
    at_two = {"version": 2, "origin": MOVED.origin, "protocol": "roblox-v1", "lineage": 2}
    entries = (await audited(outbox))[begun:]
    assert [(e["actor"], e["action"], e["tenant"], e["why"]) for e in entries] == [
        ("olga", "agent.approve", None, "checked"),
        ("otto", "agent.hold", TENANT, "maintenance"),
        ("olga", "agent.same_specialist", None, "the same team"),
        ("otto", "agent.resume", TENANT, None),
        ("olga", "agent.hold_version", None, "it leaks"),
        ("olga", "agent.resume_version", None, None),
        ("peter", "agent.propose", None, "a better name"),
        ("olga", "agent.withdraw", None, "no"),
        ("olga", "agent.revoke", None, "gone"),
    ]
    moving, moved = {"1": "approved", "2": "proposed"}, {"1": "superseded", "2": "approved"}
    in_force = {"inForce": at_two, "versions": moved}
    on_hold = {"inForce": at_two, "versions": {"1": "superseded", "2": "held"}}
    asked, refused = ({"inForce": at_two, "versions": {**moved, "3": state}} for state in ("proposed", "withdrawn"))
    out = {"inForce": None, "versions": {"1": "superseded", "2": "revoked", "3": "withdrawn"}}
    assert [(e["before"], e["after"]) for e in entries] == [
        ({"inForce": None, "versions": moving}, in_force),
        ({**in_force, "held": False}, {**in_force, "held": True}),
        (in_force, in_force),
        ({**in_force, "held": True}, {**in_force, "held": False}),
        (in_force, on_hold),
        (on_hold, in_force),
        (in_force, asked),
        (asked, refused),
        (refused, out),
    ]
    moves = [(0, 0), (0, 0), (0, 0), (0, 1), (1, 0), (0, 1), (0, 0), (0, 0), (1, 0)]
    assert [(o.parked, o.freed) for o in outcomes] == moves
    assert all(o.complete for o in outcomes)
    assert [o.agent.approved and o.agent.approved.version for o in outcomes] == [*[2] * 8, None]
    assert (await outbox.row(delivery))["state"] == "held"
    assert [e["at"] for e in entries] == sorted(e["at"] for e in entries)


async def test_what_waits_moves_with_the_decision_and_is_told_of(outbox: Outbox, agents: Agents):
    """Waiting deliveries of the tenant and agent concerned move, each with an event; all others stay where they are."""
    waiting = await outbox.place()
    others = [
        await outbox.place("chemistry"),
        await outbox.place(tenant="other"),
        *[await outbox.place(state=state) for state in ("sending", "saved", "rejected", "exhausted", "abandoned")],
    ]
    before = [await outbox.row(delivery) for delivery in others]
    assert (await agents.hold(TENANT, LITERATURE, "ops", "maintenance")).parked == 1
    held = await outbox.row(waiting)
    assert (held["state"], held["version"]) == ("held", 2)
    assert (await agents.resume(TENANT, LITERATURE, "ops", None)).freed == 1
    assert (await outbox.row(waiting))["state"] == "pending"
    assert [await outbox.row(delivery) for delivery in others] == before
    events = await outbox.rows("SELECT tenant, owner, kind, ref, state FROM events ORDER BY seq")
    assert events == [
        {"tenant": TENANT, "owner": 1, "kind": "feedback", "ref": held["submission"], "state": state}
        for state in ("held", "pending")
    ]


NOBODY = AgentId("nobody")


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda a: a.approve(NOBODY, V1, "ops", None), UnknownAgentError),
        (lambda a: a.approve(LITERATURE, V2, "ops", None), UnknownAgentError),
        (lambda a: a.approve(LITERATURE, V1, "ops", None), NotApplicableError),
        (lambda a: a.revoke(NOBODY, "ops", None), UnknownAgentError),
        (lambda a: a.hold(TENANT, NOBODY, "ops", "why"), UnknownAgentError),
        (lambda a: a.hold("other", LITERATURE, "ops", "why"), NotApplicableError),
        (lambda a: a.resume(TENANT, LITERATURE, "ops", None), NotApplicableError),
        (lambda a: a.resume(TENANT, NOBODY, "ops", None), UnknownAgentError),
        (lambda a: a.declare_same(LITERATURE, V2, "ops", None), UnknownAgentError),
        (lambda a: a.declare_same(NOBODY, V1, "ops", None), UnknownAgentError),
        (lambda a: a.withdraw(LITERATURE, V1, "ops", None), NotApplicableError),
        (lambda a: a.hold_version(LITERATURE, V2, "ops", "why"), UnknownAgentError),
        (lambda a: a.resume_version(LITERATURE, V1, "ops", None), NotApplicableError),
        (lambda a: a.revoke(LITERATURE, "ops", None, V2), UnknownAgentError),
    ],
)
async def test_a_decision_that_does_not_apply_leaves_no_trace(
    outbox: Outbox, agents: Agents, act: Act, error: type[Exception]
):
    """Neither the registry nor the audit log nor a delivery shows that it was tried."""
    await outbox.place()
    await agents.hold("other", LITERATURE, "ops", "maintenance")
    tables = ("agents", "registrations", "agent_holds", "audit_log", "deliveries", "events")
    before = [await outbox.rows(f"SELECT * FROM {table}") for table in tables]
    with pytest.raises(error):
        await act(agents)
    assert [await outbox.rows(f"SELECT * FROM {table}") for table in tables] == before
