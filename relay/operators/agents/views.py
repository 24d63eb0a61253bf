"""What an operator sees of an agent: its registration, who holds it, how it fares, and whether the file agrees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry import registrations
from registry.model import Agent, AgentId
from registry.registrations import Declaration
from relay.operators.agents.configured import Disagreement, disagreement
from relay.operators.agents.health import BreakerState, Health, healths
from relay.storage.engine import Database

Standing = Literal["approved", "held", "proposed", "revoked"]
"""How an agent stands as a whole. ``proposed``: nothing is in force, and something waits to be approved."""


@dataclass(frozen=True, slots=True)
class View:
    """One agent. ``versions`` as `registrations.history` has them; ``holds`` with their tenants, one or all of them."""

    agent: Agent
    versions: Sequence[RowMapping]
    holds: Sequence[RowMapping]
    health: Health
    disagreement: Disagreement | None

    @property
    def standing(self) -> Standing:
        if self.agent.approved is not None:
            return "approved" if self.agent.sendable else "held"
        return "proposed" if any(row["state"] == "proposed" for row in self.versions) else "revoked"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which agents; None: whatever it is."""

    state: Standing | None = None
    breaker: BreakerState | None = None
    protocol: str | None = None

    def fits(self, view: View) -> bool:
        approved = view.agent.approved
        return (
            self.state in {None, view.standing}
            and self.breaker in {None, view.health.breaker.state}
            and (self.protocol is None or (approved is not None and approved.protocol == self.protocol))
        )


class Views:
    """Looks at agents. Registries are small: all of them are read, and what waits is counted in the database."""

    def __init__(self, db: Database, declarations: Iterable[Declaration]) -> None:
        self._db = db
        self._declared: Mapping[AgentId, Declaration] = {d.agent: d for d in declarations}

    async def all(self, wanted: Wanted, *, tenant: str | None = None) -> list[View]:
        """The agents that fit, by id. Holds and backlog are one tenant's own, or everybody's."""
        async with self._db.read() as connection:
            snapshot = await registrations.load(connection)
            health = await healths(self._db, connection, tenant=tenant)
            holds = await _holds(connection, tenant)
            versions = await registrations.histories(connection)
        views = [
            self._view(agent, versions[agent.id], holds, health.get(agent.id, Health()))
            for agent in sorted(snapshot.values(), key=lambda agent: agent.id)
        ]
        return [view for view in views if wanted.fits(view)]

    async def one(self, agent: AgentId, *, tenant: str | None = None) -> View | None:
        """One agent; None: there is none of this id."""
        async with self._db.read() as connection:
            known = (await registrations.load(connection)).get(agent)
            if known is None:
                return None
            health = await healths(self._db, connection, tenant=tenant, agent=agent)
            holds = await _holds(connection, tenant)
            versions = await registrations.history(connection, agent)
        return self._view(known, versions, holds, health.get(agent, Health()))

    def _view(self, agent: Agent, versions: Sequence[RowMapping], holds: Sequence[RowMapping], health: Health) -> View:
        differs = disagreement(versions, self._declared.get(agent.id))
        return View(agent, versions, [hold for hold in holds if hold["agent"] == agent.id], health, differs)


async def _holds(connection: AsyncConnection, tenant: str | None) -> Sequence[RowMapping]:
    whose = "" if tenant is None else " WHERE tenant = :tenant"
    found = await connection.execute(
        text(f"SELECT * FROM agent_holds{whose} ORDER BY agent, tenant"), {} if tenant is None else {"tenant": tenant}
    )
    return found.mappings().all()
