"""Decisions about agents: each commits with its audit entry, and then the waiting deliveries follow it."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import RowMapping
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import decisions, registrations
from registry.model import Agent, AgentId, Registration, Snapshot, Version
from registry.registrations import Decision, Declaration
from relay.delivery.parking import Moved, Parking
from relay.operators import audit
from relay.operators.agents.configured import CONFIGURATION, Plan, disagreement, plan
from relay.redaction import outline
from relay.storage.engine import Database

# Decisions are made one after the other, those of processes that start together too: each knows how things stand.
DECIDING = 7_236_014_287

Act = Callable[[AsyncConnection, Decision], Awaitable[object]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision did: the agent as it stands now, and what became of the deliveries that wait for it (see
    `relay.delivery.parking.Moved`).
    """

    agent: Agent
    parked: int
    freed: int
    complete: bool


class Agents:
    """The agents of this deployment, as operators and the configuration decide about them.

    ``four_eyes``: whoever proposed a version may not approve it. ``most_batches`` bounds how much of a backlog a
    decision itself moves before it answers; a worker moves the rest.
    """

    def __init__(
        self, db: Database, parking: Parking | None = None, *, four_eyes: bool = False, most_batches: int | None = None
    ) -> None:
        self._db = db
        self._parking = parking or Parking(db)
        self._four_eyes = four_eyes
        self._most_batches = most_batches

    async def snapshot(self) -> Snapshot:
        async with self._db.read() as connection:
            return await registrations.load(connection)

    async def history(self, agent: AgentId) -> Sequence[RowMapping]:
        """Every version; see `registrations.history`. Empty: there is no such agent."""
        async with self._db.read() as connection:
            return await registrations.history(connection, agent)

    async def propose(self, declaration: Declaration, by: str, why: str | None) -> Outcome:
        """Add a version. Another origin or protocol holds what waits for the agent until it is decided."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.propose(connection, declaration, "operator", decision)

        return await self._decide("agent.propose", declaration.agent, by, why, act)

    async def approve(self, agent: AgentId, version: Version, by: str, why: str | None) -> Outcome:
        """Put a proposed (or earlier) version in force."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.approve(connection, agent, version, decision, four_eyes=self._four_eyes)

        return await self._decide("agent.approve", agent, by, why, act)

    async def withdraw(self, agent: AgentId, version: Version, by: str, why: str | None) -> Outcome:
        """Take a proposal back, or turn it down."""
        return await self._about_version("agent.withdraw", decisions.withdraw, agent, version, by, why)

    async def revoke(self, agent: AgentId, by: str, why: str | None, version: Version | None = None) -> Outcome:
        """Send nothing to this agent any more, or nothing by this version; what waits for it is held, none is lost."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.revoke(connection, agent, decision, version)

        return await self._decide("agent.revoke", agent, by, why, act)

    async def hold_version(self, agent: AgentId, version: Version, by: str, why: str) -> Outcome:
        """Stop new attempts under the approved version, for every tenant."""
        return await self._about_version("agent.hold_version", decisions.hold_version, agent, version, by, why)

    async def resume_version(self, agent: AgentId, version: Version, by: str, why: str | None) -> Outcome:
        """End the hold of a version."""
        return await self._about_version("agent.resume_version", decisions.resume_version, agent, version, by, why)

    async def hold(self, tenant: str, agent: AgentId, by: str, why: str) -> Outcome:
        """Stop new attempts for one tenant."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.hold(connection, agent, tenant, decision)

        return await self._decide("agent.hold", agent, by, why, act, tenant)

    async def resume(self, tenant: str, agent: AgentId, by: str, why: str | None) -> Outcome:
        """End a tenant's hold."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.resume(connection, agent, tenant, decision)

        return await self._decide("agent.resume", agent, by, why, act, tenant)

    async def declare_same(self, agent: AgentId, earlier: Version, by: str, why: str | None) -> Outcome:
        """Say that the approved version is the same specialist as an earlier one, at a new origin."""

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await decisions.declare_same(connection, agent, earlier, decision.at)

        return await self._decide("agent.same_specialist", agent, by, why, act)

    async def seed(self, declarations: Iterable[Declaration]) -> None:
        """Bring the registry in line with the configuration, as far as that is the configuration's to decide (see
        `relay.operators.agents.configured`); where the two go on to disagree, the log says so.
        """
        declared = {d.agent: d for d in declarations}
        known = await self.snapshot()
        for agent in [*declared, *(agent for agent in known if agent not in declared)]:
            await self._configure(agent, declared.get(agent))
            if differs := disagreement(await self.history(agent), declared.get(agent)):
                log.warning(
                    "agent_disagrees_with_configuration",
                    agent=agent,
                    version=differs.version,
                    state=differs.state,
                    differs=list(differs.differs),
                )

    async def _configure(self, agent: AgentId, declaration: Declaration | None) -> None:
        """Carry out what the configuration has to say, looking first: a start that changes nothing locks nothing."""
        if plan(await self.history(agent), declaration).is_empty:
            return
        carried_out: list[Plan] = []

        async def act(connection: AsyncConnection, decision: Decision) -> None:
            # Looked at again: another process that starts at the same time may have been first.
            carried_out.append(plan(await registrations.history(connection, agent), declaration))
            await _carry_out(connection, agent, declaration, carried_out[0], decision)

        def action() -> str | None:
            return None if carried_out[0].is_empty else _name_of(carried_out[0])

        why = "no longer in the configuration" if declaration is None else None
        if await self._carry_out(action, agent, CONFIGURATION, why, act) is not None:
            log.info("agent_configured", agent=agent, action=action())

    async def _about_version(
        self,
        action: str,
        change: Callable[[AsyncConnection, AgentId, Version, Decision], Awaitable[None]],
        agent: AgentId,
        version: Version,
        by: str,
        why: str | None,
    ) -> Outcome:
        async def act(connection: AsyncConnection, decision: Decision) -> None:
            await change(connection, agent, version, decision)

        return await self._decide(action, agent, by, why, act)

    async def _decide(
        self, action: str, agent: AgentId, by: str, why: str | None, act: Act, tenant: str | None = None
    ) -> Outcome:
        outcome = await self._carry_out(lambda: action, agent, by, why, act, tenant)
        if outcome is None:
            raise AssertionError("unreachable: a decision with a name is always written down")
        return outcome

    async def _carry_out(
        self,
        action: Callable[[], str | None],
        agent: AgentId,
        by: str,
        why: str | None,
        act: Act,
        tenant: str | None = None,
    ) -> Outcome | None:
        """One transaction with the change and its audit entry; then the deliveries. ``action`` names, after the act,
        what was done; None: nothing.
        """
        async with self._db.write() as connection:
            await self._db.serialize(connection, DECIDING)
            decision = Decision(by, why, await self._db.now_ms(connection))
            before = await _stand(connection, agent, tenant)
            await act(connection, decision)
            done = action()
            if done is None:
                return None
            after = await _stand(connection, agent, tenant)
            await self._parking.begin(connection, agent)
            await audit.record(
                connection,
                at=decision.at,
                actor=by,
                action=done,
                target=agent,
                tenant=tenant,
                before=before,
                after=after,
                why=why,
            )
            known = (await registrations.load(connection))[agent]
        moved = await self._follow(agent)
        return Outcome(known, moved.parked, moved.freed, moved.complete)

    async def _follow(self, agent: AgentId) -> Moved:
        """The decision stands: what goes wrong from here on is made good by a worker."""
        try:
            return await self._parking.park(agent, most_batches=self._most_batches)
        except (DBAPIError, PoolTimeoutError) as error:
            log.warning("deliveries_not_moved", agent=agent, **outline(error))
            return Moved(0, 0, complete=False)


async def _carry_out(
    connection: AsyncConnection, agent: AgentId, declaration: Declaration | None, steps: Plan, decision: Decision
) -> None:
    for version in steps.withdraw:
        await decisions.withdraw(connection, agent, version, decision)
    for version in steps.revoke:
        await decisions.revoke(connection, agent, decision, version)
    if steps.propose and declaration is not None:
        version = await decisions.propose(connection, declaration, "configuration", decision)
        if steps.approve:
            await decisions.approve(connection, agent, version, decision)


def _name_of(steps: Plan) -> str:
    if steps.propose:
        return "agent.configured" if steps.approve else "agent.proposed"
    return "agent.revoke" if steps.revoke else "agent.withdraw"


async def _stand(connection: AsyncConnection, agent: AgentId, tenant: str | None) -> Mapping[str, Any] | None:
    """How an agent stands, for the audit log: what is in force, and the state of each version."""
    known = (await registrations.load(connection)).get(agent)
    if known is None:
        return None
    versions = await registrations.versions_of(connection, agent)
    return {
        "inForce": known.approved and _destination(known.approved),
        "versions": {str(version.version): version.state for version in versions},
        **({} if tenant is None else {"held": tenant in known.held_by}),
    }


def _destination(registration: Registration) -> Mapping[str, Any]:
    return {
        "version": registration.version,
        "origin": registration.origin,
        "protocol": registration.protocol,
        "lineage": registration.lineage,
    }
