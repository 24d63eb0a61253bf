"""The registry in the database, on both engines: versions, approvals, lineages, holds, and who said so."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import registrations
from registry.decisions import (
    approve,
    declare_same,
    hold,
    hold_version,
    propose,
    resume,
    resume_version,
    revoke,
    withdraw,
)
from registry.model import (
    AgentId,
    ClientCredentials,
    Credential,
    Limits,
    OwnerAssertion,
    StaticBearer,
    TokenExchange,
    Version,
)
from registry.registrations import (
    Decision,
    Declaration,
    NotApplicableError,
    OwnProposalError,
    Registrations,
    UnknownAgentError,
)
from relay.storage.engine import Database

LITERATURE = AgentId("literature")
V1, V2, V3, V4 = Version(1), Version(2), Version(3), Version(4)
BEARER = StaticBearer(issuer="https://login.example.org", client_id="workbench", token_file="bearer")
GRANT: dict[str, Any] = {
    "issuer": "https://login.example.org",
    "client_id": "workbench",
    "token_endpoint": "https://login.example.org/token",
    "key_file": "workbench.pem",
    "resource": "https://literature.example.org",
    "scope": "feedback:write",
}
DECLARED = Declaration(
    agent=LITERATURE,
    name="Literature",
    origin="https://literature.example.org",
    protocol="roblox-v1",
    credentials=(BEARER,),
)
MOVED = replace(DECLARED, origin="https://moved.example.org")

Act = Callable[..., Awaitable[Any]]


class Registry:
    """The registry, with each action in a transaction of its own, decided by ``ops`` at a moment that always grows."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.view = Registrations(db.read)
        self.connections = 0
        self._at = 0

    def decision(self, why: str | None = "because") -> Decision:
        self._at += 1
        return Decision("ops", why, self._at)

    async def do(self, action: Act, *arguments: Any) -> Any:
        async with self.db.write() as connection:
            return await action(connection, *arguments)

    async def propose(self, declaration: Declaration = DECLARED) -> Version:
        version: Version = await self.do(propose, declaration, "operator", self.decision())
        return version

    async def approve(self, version: Version) -> None:
        await self.do(approve, LITERATURE, version, self.decision())

    async def states(self) -> list[str]:
        async with self.db.read() as connection:
            return [row["state"] for row in await registrations.history(connection, LITERATURE)]

    async def agent(self) -> Any:
        return (await self.view.reload())[LITERATURE]

    @asynccontextmanager
    async def counted(self) -> AsyncIterator[AsyncConnection]:
        """A reading connection, counted."""
        self.connections += 1
        async with self.db.read() as connection:
            yield connection


@pytest.fixture
def registry(database: Database) -> Registry:
    return Registry(database)


async def test_a_proposal_is_a_version_with_nothing_in_force(registry: Registry):
    """The first version: known, pinned by tasks, and not sent to."""
    assert await registry.propose() == V1
    agent = await registry.agent()
    assert (agent.name, agent.approved, agent.newest, agent.pinned) == ("Literature", None, V1, V1)
    assert agent.lineages == {V1: 1}
    assert await registry.states() == ["proposed"]


async def test_an_approved_version_is_in_force_as_it_was_declared(registry: Registry):
    """Origin, protocol, limits and every kind of credential come back from the database as they went in, in order."""
    credentials: tuple[Credential, ...] = (
        OwnerAssertion(**GRANT),
        BEARER,
        ClientCredentials(**GRANT),
        TokenExchange(**GRANT, dpop=True, dpop_key_file="dpop.pem"),
        replace(BEARER, client_certificate_file="c.pem", client_certificate_key_file="k.pem"),
    )
    said = replace(
        DECLARED,
        name="Literatür ✓",
        credentials=credentials,
        limits=Limits(in_flight=3),
        owner_contact="literature@example.org",
    )
    await registry.propose(said)
    await registry.approve(V1)
    approved = (await registry.agent()).approved
    assert registrations.said_by(approved) == said
    assert (approved.version, approved.state, approved.source) == (V1, "approved", "operator")
    assert (approved.name, approved.origin, approved.protocol) == ("Literatür ✓", DECLARED.origin, "roblox-v1")
    assert approved.credentials == credentials


async def test_a_version_of_before_the_newest_keys_is_read(registry: Registry):
    """A credential that was stored when it had fewer members has their defaults."""
    await registry.propose(replace(DECLARED, credentials=(OwnerAssertion(**GRANT),)))
    await registry.approve(V1)
    async with registry.db.write() as connection:
        stored = {"credentials": json.dumps([{"mode": "owner_assertion", **GRANT}])}
        await connection.execute(text("UPDATE registrations SET credentials = :credentials"), stored)
    assert (await registry.agent()).approved.credentials == (OwnerAssertion(**GRANT),)


async def test_an_agent_that_is_not_opted_in_has_no_protocol(registry: Registry):
    """Neither a protocol nor credentials: both come back as nothing."""
    await registry.propose(replace(DECLARED, protocol=None, credentials=()))
    await registry.approve(V1)
    approved = (await registry.agent()).approved
    assert (approved.protocol, approved.credentials) == (None, ())


async def test_another_name_or_credential_leaves_the_approved_version_in_force(registry: Registry):
    """The destination is the same: so is the lineage, and nothing is interrupted until the new version is approved."""
    await registry.propose()
    await registry.approve(V1)
    assert await registry.propose(replace(DECLARED, name="L2", credentials=())) == V2
    agent = await registry.agent()
    assert (agent.approved.version, agent.newest, agent.lineages, agent.name) == (V1, V2, {V1: 1, V2: 1}, "Literature")
    await registry.approve(V2)
    agent = await registry.agent()
    assert (agent.approved.version, agent.name) == (V2, "L2")
    assert await registry.states() == ["superseded", "approved"]


@pytest.mark.parametrize(
    "change", [{"origin": "https://moved.example.org"}, {"protocol": "roblox-v2"}, {"protocol": None}], ids=str
)
async def test_another_origin_or_protocol_takes_the_approved_version_out_of_force(
    registry: Registry, change: dict[str, Any]
):
    """It is another destination until an operator says otherwise: nothing is approved, and the lineage is a new one."""
    await registry.propose()
    await registry.approve(V1)
    await registry.propose(replace(DECLARED, **change))
    agent = await registry.agent()
    assert (agent.approved, agent.lineages) == (None, {V1: 1, V2: 2})
    assert await registry.states() == ["approved", "proposed"]
    assert agent.is_held("acme", V1)


async def test_back_at_an_earlier_origin_it_is_the_earlier_specialist(registry: Registry):
    """Lineage goes by origin and protocol: what was pinned before the detour is free again, not what was on it."""
    for number, declaration in enumerate((DECLARED, MOVED, DECLARED), start=1):
        await registry.propose(declaration)
        await registry.approve(Version(number))
    agent = await registry.agent()
    assert agent.lineages == {V1: 1, V2: 2, V3: 1}
    assert [agent.is_held("acme", v) for v in (V1, V2, V3)] == [False, True, False]


async def test_an_earlier_version_can_be_put_in_force_again(registry: Registry):
    """One version at a time is approved, whichever it is."""
    for declaration in (DECLARED, MOVED):
        await registry.propose(declaration)
    await registry.approve(V2)
    await registry.approve(V1)
    assert await registry.states() == ["approved", "superseded"]
    assert (await registry.agent()).approved.origin == DECLARED.origin


async def test_a_move_can_be_declared_to_be_of_the_same_specialist(registry: Registry):
    """Every version of the earlier lineage joins the approved one, and nothing else does."""
    other = replace(DECLARED, origin="https://third.example.org")
    for declaration in (DECLARED, other, DECLARED, MOVED):
        await registry.propose(declaration)
    await registry.approve(V4)
    await registry.do(declare_same, LITERATURE, V3, 99)
    agent = await registry.agent()
    assert agent.lineages == {V1: 4, V2: 2, V3: 4, V4: 4}
    assert [agent.is_held("acme", v) for v in (V1, V2, V3, V4)] == [False, True, False, False]
    assert agent.approved.lineage == 4


async def test_a_withdrawn_move_puts_what_was_approved_in_force_again(registry: Registry):
    """Two moves are proposed; while either is open nothing is in force, and then the first version is, as before."""
    for declaration in (DECLARED, MOVED, replace(DECLARED, origin="https://third.example.org")):
        await registry.propose(declaration)
        if declaration is DECLARED:
            await registry.approve(V1)
    await registry.do(withdraw, LITERATURE, V3, registry.decision())
    assert (await registry.agent()).approved is None
    await registry.do(withdraw, LITERATURE, V2, registry.decision("not ours"))
    agent = await registry.agent()
    assert (agent.approved.version, agent.approved.state) == (V1, "approved")
    assert await registry.states() == ["approved", "withdrawn", "withdrawn"]
    async with registry.db.read() as connection:
        row = (await registrations.history(connection, LITERATURE))[1]
    assert (row["revoked_by"], row["revoked_why"]) == ("ops", "not ours")
    with pytest.raises(NotApplicableError, match="was withdrawn: propose it again"):
        await registry.approve(V2)


async def test_approving_answers_whatever_else_is_proposed(registry: Registry):
    """What was in force, put in force again, turns the move down; a proposal that was passed over can be approved."""
    for declaration in (DECLARED, MOVED, replace(DECLARED, name="L3")):
        await registry.propose(declaration)
        if declaration is DECLARED:
            await registry.approve(V1)
    await registry.approve(V1)
    assert await registry.states() == ["approved", "superseded", "superseded"]
    assert (await registry.agent()).approved.version == V1
    await registry.approve(V3)
    assert await registry.states() == ["superseded", "superseded", "approved"]


async def test_a_held_version_stays_in_force_and_is_sent_nothing(registry: Registry):
    """Everybody's deliveries are held, and new ones are taken; it can only be resumed, not approved once more."""
    await registry.propose()
    await registry.approve(V1)
    await registry.do(hold_version, LITERATURE, V1, registry.decision("it leaks"))
    agent = await registry.agent()
    assert (agent.approved.state, agent.sendable, agent.pinned) == ("held", False, V1)
    assert agent.is_held("acme", V1)
    assert agent.is_held_for("acme")
    with pytest.raises(NotApplicableError, match="is held: resume it") as refused:
        await registry.approve(V1)
    assert refused.value.state == "held"
    await registry.do(resume_version, LITERATURE, V1, registry.decision())
    agent = await registry.agent()
    assert (agent.approved.state, agent.sendable, agent.is_held("acme", V1)) == ("approved", True, False)
    async with registry.db.read() as connection:
        [row] = await registrations.history(connection, LITERATURE)
    assert (row["held_by"], row["held_why"], row["held_at"]) == ("ops", "it leaks", 3)


@pytest.mark.parametrize("state", ["proposed", "approved", "held"])
async def test_one_version_can_be_revoked_alone(registry: Registry, state: str):
    """Whatever stands beside it stays; a revoked move no longer stands in the way of what was approved."""
    await registry.propose()
    await registry.approve(V1)
    await registry.propose(MOVED)
    if state == "held":
        await registry.do(hold_version, LITERATURE, V1, registry.decision())
    version = V2 if state == "proposed" else V1
    await registry.do(revoke, LITERATURE, registry.decision(), version)
    expected = ["approved", "revoked"] if state == "proposed" else ["revoked", "proposed"]
    assert await registry.states() == expected
    in_force = (await registry.agent()).approved
    assert (in_force and in_force.version) == (V1 if state == "proposed" else None)


async def test_with_four_eyes_the_proposer_cannot_approve(registry: Registry):
    """Somebody else can. Without four eyes it is the proposer's own business."""
    await registry.propose()
    with pytest.raises(OwnProposalError, match="by another than its proposer") as refused:
        async with registry.db.write() as connection:
            await approve(connection, LITERATURE, V1, registry.decision(), four_eyes=True)
    assert refused.value.state == "proposed"
    assert await registry.states() == ["proposed"]
    async with registry.db.write() as connection:
        await approve(connection, LITERATURE, V1, Decision("olga", None, 9), four_eyes=True)
    await registry.propose(replace(DECLARED, name="L2"))
    await registry.approve(V2)
    assert await registry.states() == ["superseded", "approved"]


async def test_a_revoked_agent_has_nothing_in_force(registry: Registry):
    """Both what is approved and what is proposed go; what was superseded before stays what it was."""
    for declaration in (DECLARED, replace(DECLARED, name="L2")):
        await registry.propose(declaration)
        await registry.approve((await registry.agent()).newest)
    await registry.propose(replace(DECLARED, name="L3"))
    await registry.do(revoke, LITERATURE, registry.decision())
    assert await registry.states() == ["superseded", "revoked", "revoked"]
    assert (await registry.agent()).approved is None
    await registry.approve(V2)
    assert (await registry.agent()).approved.version == V2


async def test_the_history_says_who_when_and_why(registry: Registry):
    """Each version keeps who proposed, approved and revoked it, each with the moment and the reason."""
    await registry.propose()
    await registry.approve(V1)
    await registry.do(revoke, LITERATURE, registry.decision("gone"))
    async with registry.db.read() as connection:
        [row] = await registrations.history(connection, LITERATURE)
        assert registrations.declared(row) == DECLARED
        assert await registrations.history(connection, AgentId("nobody")) == []
    told = [(row[f"{act}_by"], row[f"{act}_why"], row[f"{act}_at"]) for act in ("proposed", "approved", "revoked")]
    assert told == [("ops", "because", 1), ("ops", "because", 2), ("ops", "gone", 3)]


async def test_a_hold_belongs_to_one_tenant(registry: Registry):
    """Held for whom it was said, until they resume; a hold of another tenant is another hold."""
    await registry.propose()
    await registry.approve(V1)
    for tenant in ("acme", "other"):
        await registry.do(hold, LITERATURE, tenant, registry.decision())
    assert (await registry.agent()).held_by == {"acme", "other"}
    await registry.do(resume, LITERATURE, "acme", registry.decision())
    agent = await registry.agent()
    assert agent.held_by == {"other"}
    assert (agent.is_held("acme", V1), agent.is_held("other", V1)) == (False, True)


DECISION = Decision("ops", "because", 50)
NOBODY = AgentId("nobody")


@pytest.mark.parametrize(
    ("action", "arguments", "error", "text"),
    [
        (approve, (NOBODY, V1, DECISION), UnknownAgentError, "no agent nobody"),
        (revoke, (NOBODY, DECISION), UnknownAgentError, "no agent nobody"),
        (hold, (NOBODY, "acme", DECISION), UnknownAgentError, "no agent nobody"),
        (resume, (NOBODY, "acme", DECISION), UnknownAgentError, "no agent nobody"),
        (withdraw, (NOBODY, V1, DECISION), UnknownAgentError, "no agent nobody"),
        (withdraw, (LITERATURE, V4, DECISION), UnknownAgentError, "no version 4"),
        (withdraw, (LITERATURE, V2, DECISION), NotApplicableError, "version 2 of literature is approved, not proposed"),
        (hold_version, (LITERATURE, V4, DECISION), UnknownAgentError, "no version 4"),
        (hold_version, (LITERATURE, V1, DECISION), NotApplicableError, "version 1 of literature is superseded, not"),
        (resume_version, (LITERATURE, V2, DECISION), NotApplicableError, "version 2 of literature is approved, not"),
        (revoke, (LITERATURE, DECISION, V1), NotApplicableError, "version 1 of literature is superseded already"),
        (declare_same, (NOBODY, V1, 50), UnknownAgentError, "no agent nobody"),
        (approve, (LITERATURE, V4, DECISION), UnknownAgentError, "no version 4"),
        (declare_same, (LITERATURE, V4, 50), UnknownAgentError, "no version 4"),
        (approve, (LITERATURE, V2, DECISION), NotApplicableError, "version 2 of literature is approved already"),
        (hold, (LITERATURE, "acme", DECISION), NotApplicableError, "held for acme already"),
        (resume, (LITERATURE, "other", DECISION), NotApplicableError, "not held for other"),
        (declare_same, (LITERATURE, V1, 50), NotApplicableError, "another protocol"),
    ],
)
async def test_what_does_not_apply_changes_nothing(
    registry: Registry, action: Act, arguments: tuple[Any, ...], error: type[Exception], text: str
):
    """The message says how things stand, and the transaction leaves no trace, not even a revision."""
    await registry.propose(replace(DECLARED, protocol="roblox-v0"))
    await registry.propose(DECLARED)
    await registry.propose(MOVED)
    await registry.approve(V2)
    await registry.do(hold, LITERATURE, "acme", registry.decision())
    before = await registry.agent()
    states = await registry.states()
    with pytest.raises(error, match=text):
        await registry.do(action, *arguments)
    assert await registry.agent() == before
    assert await registry.states() == states
    assert list(registry.view.snapshot) == [LITERATURE]


async def test_without_an_approved_version_there_is_nothing_to_revoke_or_to_be_the_same_as(registry: Registry):
    """A second revocation and a declaration of sameness both say what is missing."""
    await registry.propose()
    with pytest.raises(NotApplicableError, match="approve one first"):
        await registry.do(declare_same, LITERATURE, V1, 50)
    await registry.do(revoke, LITERATURE, registry.decision())
    with pytest.raises(NotApplicableError, match="no version that is proposed, approved or held"):
        await registry.do(revoke, LITERATURE, registry.decision())


async def test_every_change_raises_the_revision(registry: Registry):
    """Whoever decided from an older snapshot finds out: no action leaves the number as it was."""
    await registry.propose()
    seen = [(await registry.agent()).revision]
    for action, *arguments in (
        (approve, V1),
        (hold, "acme"),
        (resume, "acme"),
        (hold_version, V1),
        (resume_version, V1),
        (revoke,),
        (approve, V1),
    ):
        await registry.do(action, LITERATURE, *arguments, registry.decision())
        seen.append((await registry.agent()).revision)
    await registry.propose(MOVED)
    seen.append((await registry.agent()).revision)
    await registry.approve(V2)
    seen.append((await registry.agent()).revision)
    await registry.do(declare_same, LITERATURE, V1, 50)
    seen.append((await registry.agent()).revision)
    await registry.propose()
    seen.append((await registry.agent()).revision)
    await registry.do(withdraw, LITERATURE, V3, registry.decision())
    seen.append((await registry.agent()).revision)
    assert seen == sorted(set(seen))


async def test_a_snapshot_stands_until_it_is_refreshed(registry: Registry):
    """One moment of the whole registry; `refresh` reads it again only when something has changed."""
    view = Registrations(registry.counted)
    assert view.snapshot == {}
    await view.refresh()
    assert (registry.connections, view.snapshot) == (1, {})
    await registry.propose()
    await registry.propose(replace(DECLARED, agent=AgentId("chemistry")))
    assert view.snapshot == {}
    await view.refresh()
    assert (registry.connections, sorted(view.snapshot)) == (3, ["chemistry", "literature"])
    first = view.snapshot
    await view.refresh()
    assert registry.connections == 4
    assert view.snapshot is first
    await registry.do(hold, LITERATURE, "acme", registry.decision())
    assert first[LITERATURE].held_by == frozenset()
    await view.refresh()
    assert registry.connections == 6
    assert view.snapshot[LITERATURE].held_by == {"acme"}
    assert first[LITERATURE].held_by == frozenset()


async def test_each_agent_has_versions_of_its_own(registry: Registry):
    """What is decided about one says nothing of another."""
    chemistry = AgentId("chemistry")
    await registry.propose()
    await registry.propose(MOVED)
    await registry.propose(replace(DECLARED, agent=chemistry))
    await registry.approve(V2)
    await registry.do(hold, LITERATURE, "acme", registry.decision())
    other = (await registry.view.reload())[chemistry]
    assert (other.approved, other.newest, other.lineages, other.held_by) == (None, V1, {V1: 1}, frozenset())
