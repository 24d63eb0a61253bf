"""The approved registry: who may receive ratings, where, under which credentials, and who said so.

What changes it stands in `registry.decisions`.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import (
    UNBOUNDED,
    Agent,
    AgentId,
    ClientCredentials,
    Credential,
    Limits,
    OwnerAssertion,
    Registration,
    Snapshot,
    StaticBearer,
    TokenExchange,
)

MODES: dict[str, type[Credential]] = {
    "client_credentials": ClientCredentials,
    "owner_assertion": OwnerAssertion,
    "token_exchange": TokenExchange,
    "static_bearer": StaticBearer,
}


class UnknownAgentError(LookupError):
    """There is no such agent, or no such version of it."""


class NotApplicableError(ValueError):
    """The action does not apply to the registration as it stands; the message says how it stands, and ``state`` too."""

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


class OwnProposalError(NotApplicableError):
    """Four eyes are asked for, and whoever approves is whoever proposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a configuration or an operator says about an agent; see `registry.model.Registration`."""

    agent: AgentId
    name: str
    origin: str
    protocol: str | None
    credentials: tuple[Credential, ...]
    limits: Limits = UNBOUNDED
    owner_contact: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decided, why, and when (milliseconds, the database's clock)."""

    by: str
    why: str | None
    at: int


class Registrations:
    """The registry as this process last read it."""

    def __init__(self, connect: Callable[[], AbstractAsyncContextManager[AsyncConnection]]) -> None:
        self._connect = connect
        self._snapshot: Snapshot = {}
        self._revisions: dict[str, int] = {}

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    async def reload(self) -> Snapshot:
        """Read everything again."""
        async with self._connect() as connection:
            self._snapshot = await load(connection)
        self._revisions = {agent.id: agent.revision for agent in self._snapshot.values()}
        return self._snapshot

    async def refresh(self) -> None:
        """Read again if anything has changed since."""
        async with self._connect() as connection:
            rows = await connection.execute(text("SELECT id, revision FROM agents"))
            revisions = {row.id: row.revision for row in rows}
        if revisions != self._revisions:
            await self.reload()


async def load(connection: AsyncConnection) -> Snapshot:
    """All agents, with the registration in force, lineages and holds."""
    agents = (await connection.execute(text("SELECT * FROM agents ORDER BY id"))).mappings().all()
    versions = {agent: list(map(_registration, rows)) for agent, rows in (await histories(connection)).items()}
    held_by: defaultdict[str, set[str]] = defaultdict(set)
    for tenant, agent in await connection.execute(text("SELECT tenant, agent FROM agent_holds")):
        held_by[agent].add(tenant)
    return {row["id"]: _agent(row, versions[row["id"]], frozenset(held_by[row["id"]])) for row in agents}


def _agent(row: RowMapping, versions: Sequence[Registration], held_by: frozenset[str]) -> Agent:
    approved = next((v for v in versions if v.version == row["approved_version"]), None)
    return Agent(
        id=row["id"],
        name=row["name"],
        revision=row["revision"],
        approved=approved,
        newest=versions[-1].version,
        lineages={v.version: v.lineage for v in versions},
        held_by=held_by,
    )


def _registration(row: RowMapping) -> Registration:
    return Registration(
        agent=row["agent"],
        version=row["version"],
        name=row["name"],
        state=row["state"],
        source=row["source"],
        origin=row["origin"],
        protocol=row["protocol"],
        credentials=tuple(_credential(c) for c in json.loads(row["credentials"])),
        lineage=row["lineage"],
        limits=Limits(**json.loads(row["limits"] or "{}")),
        owner_contact=row["owner_contact"],
    )


def _credential(stored: dict[str, Any]) -> Credential:
    return MODES[stored["mode"]](**stored)


def declared(row: RowMapping) -> Declaration:
    """What a stored version says about its agent."""
    return said_by(_registration(row))


def said_by(registration: Registration) -> Declaration:
    """What a registration says about its agent, whoever decided what about it."""
    return Declaration(**{field.name: getattr(registration, field.name) for field in fields(Declaration)})


async def histories(connection: AsyncConnection) -> Mapping[str, Sequence[RowMapping]]:
    """The history of every agent; see `history`."""
    rows = (await connection.execute(text("SELECT * FROM registrations ORDER BY agent, version"))).mappings()
    found: defaultdict[str, list[RowMapping]] = defaultdict(list)
    for row in rows:
        found[row["agent"]].append(row)
    return found


async def versions_of(connection: AsyncConnection, agent: AgentId) -> list[Registration]:
    """Every version of an agent's registration, oldest first."""
    return [_registration(row) for row in await history(connection, agent)]


async def history(connection: AsyncConnection, agent: AgentId) -> Sequence[RowMapping]:
    """Every version of an agent's registration, oldest first, with who proposed, approved, held and revoked it.

    Who withdrew a proposal stands where a revocation would.
    """
    found = await connection.execute(
        text("SELECT * FROM registrations WHERE agent = :agent ORDER BY version"), {"agent": agent}
    )
    return found.mappings().all()
