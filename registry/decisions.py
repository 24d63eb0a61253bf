"""What is decided about registrations: each change of the approved registry, with who, when and why.

Every function takes a connection, so that a change commits together with what its caller does about it. A change
bumps the agent's ``revision`` first, which also locks its row: whoever decides from an older snapshot finds out.
"""

import json
from dataclasses import asdict
from typing import Literal

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from registry.model import AgentId, RegistrationState, Source, Version, in_force
from registry.registrations import (
    Decision,
    Declaration,
    NotApplicableError,
    OwnProposalError,
    UnknownAgentError,
    history,
    versions_of,
)

REVOCABLE = frozenset[RegistrationState]({"proposed", "approved", "held"})


async def propose(connection: AsyncConnection, declaration: Declaration, source: Source, decision: Decision) -> Version:
    """Add a version. While another origin or protocol is proposed nothing is in force, until the proposal is approved
    or withdrawn; any other change leaves what is in force in force.
    """
    await _ensure_agent(connection, declaration, decision.at)
    versions = await versions_of(connection, declaration.agent)
    version = Version(len(versions) + 1)
    destination = (declaration.origin, declaration.protocol)
    same = next((v.lineage for v in versions if v.destination == destination), None)
    await connection.execute(
        text(
            "INSERT INTO registrations (agent, version, name, state, source, origin, protocol, credentials, lineage,"
            " limits, owner_contact, proposed_at, proposed_by, proposed_why) VALUES (:agent, :version, :name,"
            " 'proposed', :source, :origin, :protocol, :credentials, :lineage, :limits, :owner_contact, :at, :by, :why)"
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
            "limits": json.dumps({name: n for name, n in asdict(declaration.limits).items() if n is not None}),
            "owner_contact": declaration.owner_contact,
            **asdict(decision),
        },
    )
    await _put_in_force(connection, declaration.agent)
    return version


async def approve(
    connection: AsyncConnection, agent: AgentId, version: Version, decision: Decision, *, four_eyes: bool = False
) -> None:
    """Put a version in force. That answers whatever else is proposed: it is superseded, as is what was approved.

    ``four_eyes``: whoever proposed the version may not be the one who approves it.
    """
    row = await _version(connection, agent, version, decision.at)
    state: RegistrationState = row["state"]
    if state == "approved" and in_force(await versions_of(connection, agent)) == version:
        raise NotApplicableError(f"version {version} of {agent} is approved already", state)
    if state == "held":
        raise NotApplicableError(f"version {version} of {agent} is held: resume it", state)
    if state == "withdrawn":
        raise NotApplicableError(f"version {version} of {agent} was withdrawn: propose it again", state)
    if four_eyes and row["proposed_by"] == decision.by:
        raise OwnProposalError(f"version {version} of {agent} has to be approved by another than its proposer", state)
    await connection.execute(
        text(
            "UPDATE registrations SET state = 'superseded'"
            " WHERE agent = :agent AND state IN ('proposed', 'approved', 'held') AND version <> :version"
        ),
        {"agent": agent, "version": version},
    )
    await _set_state(connection, agent, version, "approved", decision, noted_as="approved")
    await connection.execute(
        text("UPDATE agents SET name = :name WHERE id = :agent"), {"agent": agent, "name": row["name"]}
    )
    await _put_in_force(connection, agent)


async def withdraw(connection: AsyncConnection, agent: AgentId, version: Version, decision: Decision) -> None:
    """Take a proposal back, or turn it down. If it was another destination, what was in force before is so again."""
    row = await _version(connection, agent, version, decision.at)
    if row["state"] != "proposed":
        raise NotApplicableError(f"version {version} of {agent} is {row['state']}, not proposed", row["state"])
    await _set_state(connection, agent, version, "withdrawn", decision, noted_as="revoked")
    await _put_in_force(connection, agent)


async def revoke(
    connection: AsyncConnection, agent: AgentId, decision: Decision, version: Version | None = None
) -> None:
    """Take a version out, or everything that is proposed, approved or held: nothing is sent until one is approved."""
    if version is not None:
        row = await _version(connection, agent, version, decision.at)
        if row["state"] not in REVOCABLE:
            raise NotApplicableError(f"version {version} of {agent} is {row['state']} already", row["state"])
        await _set_state(connection, agent, version, "revoked", decision, noted_as="revoked")
    else:
        await _bump(connection, agent, decision.at)
        open_ = [v for v in await versions_of(connection, agent) if v.state in REVOCABLE]
        if not open_:
            raise NotApplicableError(f"{agent} has no version that is proposed, approved or held", "revoked")
        for each in open_:
            await _set_state(connection, agent, each.version, "revoked", decision, noted_as="revoked")
    await _put_in_force(connection, agent)


async def hold_version(connection: AsyncConnection, agent: AgentId, version: Version, decision: Decision) -> None:
    """Stop new attempts under the approved version, for every tenant; an attempt under way finishes."""
    row = await _version(connection, agent, version, decision.at)
    if row["state"] != "approved":
        raise NotApplicableError(f"version {version} of {agent} is {row['state']}, not approved", row["state"])
    await _set_state(connection, agent, version, "held", decision, noted_as="held")


async def resume_version(connection: AsyncConnection, agent: AgentId, version: Version, decision: Decision) -> None:
    """End the hold of a version: it is approved, as before. Who held it last stays on record."""
    row = await _version(connection, agent, version, decision.at)
    if row["state"] != "held":
        raise NotApplicableError(f"version {version} of {agent} is {row['state']}, not held", row["state"])
    await _set_state(connection, agent, version, "approved")


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
        raise NotApplicableError(f"{agent} is held for {tenant} already", "held")


async def resume(connection: AsyncConnection, agent: AgentId, tenant: str, decision: Decision) -> None:
    """End a tenant's hold."""
    await _bump(connection, agent, decision.at)
    gone = await connection.execute(
        text("DELETE FROM agent_holds WHERE tenant = :tenant AND agent = :agent"), {"tenant": tenant, "agent": agent}
    )
    if gone.rowcount == 0:
        raise NotApplicableError(f"{agent} is not held for {tenant}", "not_held")


async def declare_same(connection: AsyncConnection, agent: AgentId, earlier: Version, at: int) -> None:
    """Say that the specialist behind an earlier version is the one that is approved now, at its new origin."""
    await _bump(connection, agent, at)
    versions = {v.version: v for v in await versions_of(connection, agent)}
    current = in_force(versions.values())
    if current is None:
        raise NotApplicableError(f"{agent} has no approved version in force: approve one first", "not_approved")
    if earlier not in versions:
        raise UnknownAgentError(f"{agent} has no version {earlier}")
    approved = versions[current]
    if versions[earlier].protocol != approved.protocol:
        raise NotApplicableError(
            f"version {earlier} of {agent} speaks another protocol than the approved one", versions[earlier].state
        )
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


async def _version(connection: AsyncConnection, agent: AgentId, version: Version, at: int) -> RowMapping:
    await _bump(connection, agent, at)
    found = next((row for row in await history(connection, agent) if row["version"] == version), None)
    if found is None:
        raise UnknownAgentError(f"{agent} has no version {version}")
    return found


async def _set_state(
    connection: AsyncConnection,
    agent: AgentId,
    version: Version,
    state: RegistrationState,
    decision: Decision | None = None,
    *,
    noted_as: Literal["approved", "held", "revoked"] | None = None,
) -> None:
    """Change the state, and note who decided that, when and why in the three columns of that name."""
    noted = "".join(f", {noted_as}_{what} = :{what}" for what in ("at", "by", "why")) if noted_as else ""
    await connection.execute(
        text(f"UPDATE registrations SET state = :state{noted} WHERE agent = :agent AND version = :version"),
        {"agent": agent, "version": version, "state": state, **(asdict(decision) if decision and noted_as else {})},
    )


async def _put_in_force(connection: AsyncConnection, agent: AgentId) -> None:
    await connection.execute(
        text("UPDATE agents SET approved_version = :version WHERE id = :agent"),
        {"agent": agent, "version": in_force(await versions_of(connection, agent))},
    )
