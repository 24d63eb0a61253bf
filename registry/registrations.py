"""The approved registry: who may receive ratings, where, under which credentials, and who said so.

Every function takes a connection, so that a change commits together with what its caller does about it. A change
bumps the agent's ``revision`` first, which also locks its row: whoever decides from an older snapshot finds out.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import (
    Agent,
    AgentId,
    ClientCredentials,
    Credential,
    OwnerAssertion,
    Registration,
    RegistrationState,
    Snapshot,
    Source,
    StaticBearer,
    TokenExchange,
    Version,
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
    """The action does not apply to the registration as it stands; the message says how it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a configuration or an operator says about an agent. ``origin`` is canonical."""

    agent: AgentId
    name: str
    origin: str
    protocol: str | None
    credentials: tuple[Credential, ...]


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
    """All agents, with their approved registration, lineages and holds."""
    agents = (await connection.execute(text("SELECT * FROM agents ORDER BY id"))).mappings().all()
    versions = (await connection.execute(text("SELECT * FROM registrations ORDER BY agent, version"))).mappings().all()
    holds = (await connection.execute(text("SELECT tenant, agent FROM agent_holds"))).all()
    return {
        row["id"]: _agent(
            row,
            [_registration(v) for v in versions if v["agent"] == row["id"]],
            frozenset(tenant for tenant, agent in holds if agent == row["id"]),
        )
        for row in agents
    }


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
    )


def _credential(stored: dict[str, Any]) -> Credential:
    return MODES[stored["mode"]](**stored)


def declared(row: RowMapping) -> Declaration:
    """What a stored version says about its agent."""
    stored = _registration(row)
    return Declaration(
        agent=stored.agent,
        name=stored.name,
        origin=stored.origin,
        protocol=stored.protocol,
        credentials=stored.credentials,
    )


async def history(connection: AsyncConnection, agent: AgentId) -> Sequence[RowMapping]:
    """Every version of an agent's registration, oldest first, with who proposed, approved and revoked it."""
    found = await connection.execute(
        text("SELECT * FROM registrations WHERE agent = :agent ORDER BY version"), {"agent": agent}
    )
    return found.mappings().all()


async def propose(connection: AsyncConnection, declaration: Declaration, source: Source, decision: Decision) -> Version:
    """Add a version. A new origin or protocol takes what was approved out of force until it is approved again; any
    other change leaves the approved version in force.
    """
    await _ensure_agent(connection, declaration, decision.at)
    versions = [_registration(row) for row in await history(connection, declaration.agent)]
    version = Version(len(versions) + 1)
    same = next((v.lineage for v in versions if _destination(v) == (declaration.origin, declaration.protocol)), None)
    await connection.execute(
        text(
            "INSERT INTO registrations (agent, version, name, state, source, origin, protocol, credentials, lineage,"
            " proposed_at, proposed_by, proposed_why) VALUES (:agent, :version, :name, 'proposed', :source, :origin,"
            " :protocol, :credentials, :lineage, :at, :by, :why)"
        ),
        {
            "agent": declaration.agent,
            "version": version,
            "name": declaration.name,
            "source": source,
            "origin": declaration.origin,
            "protocol": declaration.protocol,
            "credentials": json.dumps([asdict(c) for c in declaration.credentials]),
            "lineage": same or version,
            **asdict(decision),
        },
    )
    approved = next((v for v in versions if v.state == "approved"), None)
    if approved and _destination(approved) != (declaration.origin, declaration.protocol):
        await _set_state(connection, declaration.agent, approved.version, "superseded")
        await _point(connection, declaration.agent, None)
    return version


def _destination(registration: Registration) -> tuple[str, str | None]:
    return registration.origin, registration.protocol


async def approve(connection: AsyncConnection, agent: AgentId, version: Version, decision: Decision) -> None:
    """Put a version in force."""
    found = await _version(connection, agent, version, decision.at)
    if found.state == "approved":
        raise NotApplicableError(f"version {version} of {agent} is approved already")
    await connection.execute(
        text("UPDATE registrations SET state = 'superseded' WHERE agent = :agent AND state = 'approved'"),
        {"agent": agent},
    )
    await connection.execute(
        text(
            "UPDATE registrations SET state = 'approved', approved_at = :at, approved_by = :by, approved_why = :why"
            " WHERE agent = :agent AND version = :version"
        ),
        {"agent": agent, "version": version, **asdict(decision)},
    )
    await connection.execute(
        text("UPDATE agents SET name = :name WHERE id = :agent"), {"agent": agent, "name": found.name}
    )
    await _point(connection, agent, version)


async def revoke(connection: AsyncConnection, agent: AgentId, decision: Decision) -> None:
    """Take the newest version, and whatever is in force, out: nothing is sent until a version is approved."""
    await _bump(connection, agent, decision.at)
    changed = await connection.execute(
        text(
            "UPDATE registrations SET state = 'revoked', revoked_at = :at, revoked_by = :by, revoked_why = :why"
            " WHERE agent = :agent AND state IN ('proposed', 'approved')"
        ),
        {"agent": agent, **asdict(decision)},
    )
    if changed.rowcount == 0:
        raise NotApplicableError(f"{agent} has no version that is proposed or approved")
    await _point(connection, agent, None)


async def hold(connection: AsyncConnection, agent: AgentId, tenant: str, decision: Decision) -> None:
    """Stop new attempts to this agent for one tenant; an attempt under way finishes."""
    await _bump(connection, agent, decision.at)
    made = await connection.execute(
        text(
            "INSERT INTO agent_holds (tenant, agent, held_at, held_by, why) VALUES (:tenant, :agent, :at, :by, :why)"
            " ON CONFLICT DO NOTHING"
        ),
        {"tenant": tenant, "agent": agent, **asdict(decision)},
    )
    if made.rowcount == 0:
        raise NotApplicableError(f"{agent} is held for {tenant} already")


async def resume(connection: AsyncConnection, agent: AgentId, tenant: str, decision: Decision) -> None:
    """End a tenant's hold."""
    await _bump(connection, agent, decision.at)
    gone = await connection.execute(
        text("DELETE FROM agent_holds WHERE tenant = :tenant AND agent = :agent"), {"tenant": tenant, "agent": agent}
    )
    if gone.rowcount == 0:
        raise NotApplicableError(f"{agent} is not held for {tenant}")


async def declare_same(connection: AsyncConnection, agent: AgentId, earlier: Version, at: int) -> None:
    """Say that the specialist behind an earlier version is the one that is approved now, at its new origin."""
    await _bump(connection, agent, at)
    versions = {row["version"]: _registration(row) for row in await history(connection, agent)}
    approved = next((v for v in versions.values() if v.state == "approved"), None)
    if approved is None:
        raise NotApplicableError(f"{agent} has no approved version: approve one first")
    if earlier not in versions:
        raise UnknownAgentError(f"{agent} has no version {earlier}")
    if versions[earlier].protocol != approved.protocol:
        raise NotApplicableError(f"version {earlier} of {agent} speaks another protocol than the approved one")
    await connection.execute(
        text("UPDATE registrations SET lineage = :now WHERE agent = :agent AND lineage = :before"),
        {"agent": agent, "now": approved.lineage, "before": versions[earlier].lineage},
    )


async def _ensure_agent(connection: AsyncConnection, declaration: Declaration, at: int) -> None:
    await connection.execute(
        text(
            "INSERT INTO agents (id, name, revision, updated_at) VALUES (:id, :name, 0, :at)"
            " ON CONFLICT (id) DO NOTHING"
        ),
        {"id": declaration.agent, "name": declaration.name, "at": at},
    )
    await _bump(connection, declaration.agent, at)


async def _bump(connection: AsyncConnection, agent: AgentId, at: int) -> None:
    changed = await connection.execute(
        text("UPDATE agents SET revision = revision + 1, updated_at = :at WHERE id = :agent"),
        {"agent": agent, "at": at},
    )
    if changed.rowcount == 0:
        raise UnknownAgentError(f"there is no agent {agent}")


async def _version(connection: AsyncConnection, agent: AgentId, version: Version, at: int) -> Registration:
    await _bump(connection, agent, at)
    found = next((_registration(r) for r in await history(connection, agent) if r["version"] == version), None)
    if found is None:
        raise UnknownAgentError(f"{agent} has no version {version}")
    return found


async def _set_state(connection: AsyncConnection, agent: AgentId, version: Version, state: RegistrationState) -> None:
    await connection.execute(
        text("UPDATE registrations SET state = :state WHERE agent = :agent AND version = :version"),
        {"agent": agent, "version": version, "state": state},
    )


async def _point(connection: AsyncConnection, agent: AgentId, version: Version | None) -> None:
    await connection.execute(
        text("UPDATE agents SET approved_version = :version WHERE id = :agent"), {"agent": agent, "version": version}
    )
