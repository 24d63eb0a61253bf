"""``/console/agents/{agent}``: one agent's registration with its versions, its health, and decisions about it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web
from sqlalchemy import RowMapping

from registry.model import AgentId, Version
from registry.registrations import NotApplicableError, UnknownAgentError
from relay.errors import Refusal
from relay.http.identifiers import path_identifier
from relay.http.parameters import NoParameters, read_query, segment
from relay.operators.actors import actor
from relay.operators.agents.deciding import Agents, Outcome
from relay.operators.agents.refusing import no_agent, no_version, not_applicable
from relay.operators.agents.routes import AGENTS, VIEWS
from relay.operators.agents.views import View
from relay.operators.agents.wire import version_shown
from relay.operators.audit_trail.routes import administers
from relay.web.console.pages.agents import WAITING
from relay.web.console.pages.refusing import not_done, reason
from relay.web.console.shell import ROOT, Pages, render, see_other
from relay.web.console.visits import Visit

_ONE: Final = f"/agents/{segment('agent')}"

Decide = Callable[[str, str], Awaitable[Outcome]]
"""Makes a decision, given who decides and why."""

DECISIONS: Final[Mapping[str, str]] = {
    "approve": "Approve",
    "withdraw": "Turn down",
    "hold": "Hold for every tenant",
    "resume": "Resume",
    "revoke": "Revoke",
    "same-specialist": "Same specialist as now",
}
_IN_STATE: Final[Mapping[str, tuple[str, ...]]] = {
    "proposed": ("approve", "withdraw"),
    "approved": ("hold", "revoke"),
    "held": ("resume", "revoke"),
    "superseded": ("approve",),
    "revoked": ("approve",),
}

pages = Pages()


@pages.get(_ONE, name="console_agent")
async def show(request: web.Request, visit: Visit) -> web.StreamResponse:
    """One agent, with every version of its registration and who decided about it."""
    read_query(request, NoParameters)
    view = await _view(request, visit)
    principal = visit.principal
    values = {
        "view": view,
        "agent": view.agent,
        "hold": next(iter(view.holds), None),
        "waiting": WAITING,
        "versions": [_version_values(view, row) for row in reversed(view.versions)],
        "address": _address(view.agent.id),
        "decisions": DECISIONS,
        "may_write": "operator:write" in principal.scopes,
        "administers": administers(request, principal),
    }
    return render(request, visit, "agent.html", values)


@pages.post(f"{_ONE}/{{decision:hold|resume}}", name="console_agent_hold")
async def hold(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Start no attempt to the agent for the operator's own tenant, or end that."""
    agents, agent, tenant = request.app[AGENTS], AgentId(path_identifier(request, "agent")), visit.principal.tenant
    act = agents.hold if request.match_info["decision"] == "hold" else agents.resume
    return await _decide(request, visit, lambda by, why: act(tenant, agent, by, why))


@pages.post(
    f"{_ONE}/versions/{segment('version')}/{{decision:{'|'.join(DECISIONS)}}}",
    name="console_version_decision",
    scope="registry:admin",
)
async def decide(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Decide about a version, for the whole deployment."""
    agents, (agent, version) = request.app[AGENTS], _version(request)
    decision = request.match_info["decision"]
    return await _decide(request, visit, lambda by, why: _about(agents, decision)(agent, version, by, why))


def _about(agents: Agents, decision: str) -> Callable[[AgentId, Version, str, str], Awaitable[Outcome]]:
    def revoke(agent: AgentId, version: Version, by: str, why: str) -> Awaitable[Outcome]:
        return agents.revoke(agent, by, why, version)

    deciding: Mapping[str, Callable[[AgentId, Version, str, str], Awaitable[Outcome]]] = {
        "approve": agents.approve,
        "withdraw": agents.withdraw,
        "hold": agents.hold_version,
        "resume": agents.resume_version,
        "revoke": revoke,
        "same-specialist": agents.declare_same,
    }
    return deciding[decision]


async def _decide(request: web.Request, visit: Visit, act: Decide) -> web.StreamResponse:
    address = _address(path_identifier(request, "agent"))
    try:
        outcome = await act(await actor(request, visit.principal), reason(visit))
    except UnknownAgentError:
        await _view(request, visit)  # without an agent it is the agent that is not there
        raise no_version() from None
    except NotApplicableError as error:
        refusal = not_applicable(error)
        return not_done(request, visit, refusal, address=address, label="The agent as it stands now")
    except Refusal as refusal:
        return not_done(request, visit, refusal, address=address, label="The agent as it stands now")
    return see_other(request, address, _said(outcome))


def _said(outcome: Outcome) -> str:
    force = outcome.agent.approved
    now = "nothing is in force" if force is None else f"version {force.version} is in force"
    moved = f"{outcome.parked:,} of what waits were held, {outcome.freed:,} set free"
    return f"Decided: {now}; {moved}{'' if outcome.complete else ', and more are being moved'}."


def _version_values(view: View, row: RowMapping) -> Mapping[str, Any]:
    """A version as stored, its credentials without the files of their secrets, and what can be decided about it."""
    force = view.agent.approved
    in_force = force is not None and force.version == row["version"]
    can = list(_IN_STATE.get(row["state"], ()))
    if row["state"] == "approved" and not in_force:
        can.insert(0, "approve")
    if force is not None and not in_force and row["lineage"] != force.lineage and row["protocol"] == force.protocol:
        can.append("same-specialist")
    return {"row": row, "in_force": in_force, "can": can, "shown": version_shown(row)}


async def _view(request: web.Request, visit: Visit) -> View:
    view = await request.app[VIEWS].one(AgentId(path_identifier(request, "agent")), tenant=visit.principal.tenant)
    if view is None:
        raise no_agent()
    return view


def _address(agent: str) -> str:
    return f"{ROOT}/agents/{quote(agent, safe='')}"


def _version(request: web.Request) -> tuple[AgentId, Version]:
    """Anything that is no number of a version is simply not there."""
    number = request.match_info["version"]
    version = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0  # noqa: PLR2004
    return AgentId(path_identifier(request, "agent")), Version(version)
