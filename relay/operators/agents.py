"""Decisions about agents: each commits with its audit entry and with what it means for the waiting deliveries."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import registrations
from registry.model import Agent, AgentId, Snapshot, Version
from registry.registrations import Decision, Declaration, NotApplicableError
from relay.delivery import parking
from relay.operators import audit
from relay.storage.engine import Database

CONFIGURATION = "configuration"
# Decisions are made one after the other, those of processes that start together too: each knows how things stand.
DECIDING = 7_236_014_287

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision did: the agent as it stands now, and how many deliveries were parked or set free by it."""

    agent: Agent
    parked: int
    freed: int


class Agents:
    """The agents of this deployment, as operators decide about them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def snapshot(self) -> Snapshot:
        async with self._db.read() as connection:
            return await registrations.load(connection)

    async def history(self, agent: AgentId) -> Sequence[RowMapping]:
        async with self._db.read() as connection:
            return await registrations.history(connection, agent)

    async def approve(self, agent: AgentId, version: Version, by: str, why: str | None) -> Outcome:
        """Put a proposed (or earlier) version in force."""
        async with self._decision("agent.approve", agent, by, why) as (connection, decision, done):
            await registrations.approve(connection, agent, version, decision)
        return done[0]

    async def revoke(self, agent: AgentId, by: str, why: str | None) -> Outcome:
        """Send nothing to this agent any more; what waits for it is held, none is lost."""
        async with self._decision("agent.revoke", agent, by, why) as (connection, decision, done):
            await registrations.revoke(connection, agent, decision)
        return done[0]

    async def hold(self, tenant: str, agent: AgentId, by: str, why: str) -> Outcome:
        """Stop new attempts for one tenant."""
        async with self._decision("agent.hold", agent, by, why, tenant) as (connection, decision, done):
            await registrations.hold(connection, agent, tenant, decision)
        return done[0]

    async def resume(self, tenant: str, agent: AgentId, by: str, why: str | None) -> Outcome:
        """End a tenant's hold."""
        async with self._decision("agent.resume", agent, by, why, tenant) as (connection, decision, done):
            await registrations.resume(connection, agent, tenant, decision)
        return done[0]

    async def declare_same(self, agent: AgentId, earlier: Version, by: str, why: str | None) -> Outcome:
        """Say that the approved version is the same specialist as an earlier one, at a new origin."""
        async with self._decision("agent.same_specialist", agent, by, why) as (connection, decision, done):
            await registrations.declare_same(connection, agent, earlier, decision.at)
        return done[0]

    @asynccontextmanager
    async def _decision(
        self, action: str, agent: AgentId, by: str, why: str | None, tenant: str | None = None
    ) -> AsyncIterator[tuple[AsyncConnection, Decision, list[Outcome]]]:
        done: list[Outcome] = []
        async with self._db.write() as connection:
            await self._db.serialize(connection, DECIDING)
            decision = Decision(by, why, await self._db.now_ms(connection))
            before = (await registrations.load(connection)).get(agent)
            yield connection, decision, done
            done.append(await _finish(connection, action, agent, decision, before, tenant))

    async def seed(self, declarations: Iterable[Declaration]) -> None:
        """Bring the registry in line with the configuration.

        A new agent, and a change that keeps origin and protocol, is approved by configuration. A change of either is
        only proposed: its deliveries are held until an operator approves it. What an operator revoked stays revoked.
        """
        declared = {d.agent: d for d in declarations}
        snapshot = await self.snapshot()
        for declaration in declared.values():
            await self._seed_one(declaration)
        for agent in snapshot.values():
            if agent.id not in declared and agent.approved and agent.approved.source == CONFIGURATION:
                await self._retire(agent.id)

    async def _retire(self, agent: AgentId) -> None:
        with suppress(NotApplicableError):  # another process that starts was first
            await self.revoke(agent, CONFIGURATION, "no longer in the configuration")
            log.warning("agent_left_configuration", agent=agent)

    async def _seed_one(self, declaration: Declaration) -> None:
        async with self._db.write() as connection:
            await self._db.serialize(connection, DECIDING)
            rows = await registrations.history(connection, declaration.agent)
            newest = rows[-1] if rows else None
            if newest is not None and _says_the_same(newest, declaration) and not _left(newest):
                if newest["state"] != "approved":
                    log.warning("agent_not_approved", agent=declaration.agent, state=newest["state"])
                return
            before = (await registrations.load(connection)).get(declaration.agent)
            decision = Decision(CONFIGURATION, None, await self._db.now_ms(connection))
            version = await registrations.propose(connection, declaration, "configuration", decision)
            approved = _approved_by_configuration(rows, declaration)
            if approved:
                await registrations.approve(connection, declaration.agent, version, decision)
            else:
                log.warning("agent_needs_approval", agent=declaration.agent, version=version)
            action = "agent.configured" if approved else "agent.proposed"
            await _finish(connection, action, declaration.agent, decision, before, None)


def _says_the_same(row: RowMapping, declaration: Declaration) -> bool:
    stored = registrations.declared(row)
    return stored == declaration


def _left(row: RowMapping) -> bool:
    return bool(row["state"] == "revoked" and row["revoked_by"] == CONFIGURATION)


def _approved_by_configuration(rows: Sequence[RowMapping], declaration: Declaration) -> bool:
    """A first registration is; later ones only at the origin and protocol that were approved last, and only if no
    operator has revoked anything since, however many versions ago.
    """
    if not rows:
        return True
    approved = [row for row in rows if row["approved_at"] is not None]
    if not approved:
        return False
    last = max(approved, key=lambda row: (row["state"] == "approved", row["approved_at"], row["version"]))
    revoked = [row for row in rows if row["state"] == "revoked" and not _left(row)]
    if any(row["revoked_at"] >= last["approved_at"] for row in revoked):
        return False
    return (last["origin"], last["protocol"]) == (declaration.origin, declaration.protocol)


async def _finish(
    connection: AsyncConnection,
    action: str,
    agent: AgentId,
    decision: Decision,
    before: Agent | None,
    tenant: str | None,
) -> Outcome:
    after = (await registrations.load(connection))[agent]
    moved = await parking.repark(connection, after, decision.at)
    await audit.record(
        connection,
        at=decision.at,
        actor=decision.by,
        action=action,
        target=agent,
        tenant=tenant,
        before=None if before is None else _shown(before, tenant),
        after={**_shown(after, tenant), "parked": moved.parked, "freed": moved.freed},
        why=decision.why,
    )
    return Outcome(after, moved.parked, moved.freed)


def _shown(agent: Agent, tenant: str | None) -> Mapping[str, Any]:
    shown: dict[str, Any] = {"newest": agent.newest, "approved": None}
    if agent.approved:
        shown["approved"] = {
            "version": agent.approved.version,
            "origin": agent.approved.origin,
            "protocol": agent.approved.protocol,
            "lineage": agent.approved.lineage,
        }
    if tenant is not None:
        shown["held"] = tenant in agent.held_by
    return shown
