"""``/api/operator/agents``"""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from registry.model import AgentId, Version
from registry.registrations import NotApplicableError, UnknownAgentError
from relay.http.answers import json_answer
from relay.http.bodies import read_json
from relay.http.cursors import Cursors, scope_of
from relay.http.identifiers import path_identifier
from relay.http.limits import MAX_BODY_BYTES
from relay.http.operations import described
from relay.http.parameters import NoParameters, read_query, segment
from relay.identity.authentication import PRINCIPAL, authorize_operator
from relay.identity.model import OperatorScope
from relay.operators.actors import actor
from relay.operators.agents import contract
from relay.operators.agents.deciding import Agents, Outcome
from relay.operators.agents.proposing import Proposals
from relay.operators.agents.refusing import no_agent, no_version, not_applicable
from relay.operators.agents.views import View, Views, Wanted
from relay.operators.agents.wire import AgentsPage, AgentsQuery, ProposalBody, ReasonBody, decided, detail, shown

AGENTS: Final = web.AppKey("agents", Agents)
VIEWS: Final = web.AppKey("agent_views", Views)
PROPOSALS: Final = web.AppKey("agent_proposals", Proposals)
LIST_CURSORS: Final = web.AppKey("agent_cursors", Cursors)

BATCHES_WHILE_ASKED: Final = 20
"""How much of a backlog is moved before the answer; the rest is moved behind it."""

Decide = Callable[[Agents, str, str], Awaitable[Outcome]]
"""Makes a decision, given who decides and why."""

_AGENT = f"/api/operator/agents/{segment('agent')}"
_VERSION = f"{_AGENT}/versions/{segment('version')}"

routes = web.RouteTableDef()


@routes.get("/api/operator/agents", name="list_agents")
@described(contract.LIST)
async def page(request: web.Request) -> web.Response:
    """The deployment's agents, by id, with how they fare for the operator's own tenant."""
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, AgentsQuery)
    scope = scope_of(principal.tenant, "operator agents", query.state, query.breaker, query.protocol)
    cursors = request.app[LIST_CURSORS]
    after = "" if query.cursor is None else str(cursors.read(scope, query.cursor)[0])
    wanted = Wanted(query.state, query.breaker, query.protocol)
    found = await request.app[VIEWS].all(wanted, tenant=principal.tenant)
    rest = [view for view in found if view.agent.id > after]
    items = rest[: query.limit]
    following = cursors.issue(scope, [items[-1].agent.id]) if len(rest) > query.limit else None
    return json_answer(AgentsPage([shown(view) for view in items], following, len(found)))


@routes.get(_AGENT, name="show_agent")
@described(contract.SHOW)
async def show(request: web.Request) -> web.Response:
    """One agent, with every version of its registration and who decided about it."""
    principal = await authorize_operator(request, "operator:read")
    read_query(request, NoParameters)
    return json_answer(detail(await _view(request, principal.tenant)))


@routes.post(f"{_AGENT}/proposals", name="propose_agent")
@described(contract.PROPOSE)
async def propose(request: web.Request) -> web.Response:
    """Propose a version of an agent's registration, or an agent that is not known yet.

    While another origin or protocol is proposed nothing is sent to the agent; any other change leaves what is in force
    in force until it is approved.
    """
    principal = await authorize_operator(request, "registry:admin")
    read_query(request, NoParameters)
    agent = AgentId(path_identifier(request, "agent"))
    body = await read_json(request, ProposalBody, max_bytes=request.app[MAX_BODY_BYTES])
    declaration = await request.app[PROPOSALS].complete(agent, body.changes())
    outcome = await request.app[AGENTS].propose(declaration, await actor(request, principal), body.why)
    return json_answer(decided(await _view(request, principal.tenant), outcome), status=201)


@routes.post(f"{_VERSION}/approve", name="approve_version")
@described(contract.APPROVE)
async def approve(request: web.Request) -> web.Response:
    """Put a version in force. Whatever else is proposed is superseded, as is what was approved."""
    return await _decide(request, "registry:admin", lambda a, by, why: a.approve(*_version(request), by, why))


@routes.post(f"{_VERSION}/withdraw", name="withdraw_version")
@described(contract.WITHDRAW)
async def withdraw(request: web.Request) -> web.Response:
    """Take a proposal back, or turn it down: what was in force before is so again."""
    return await _decide(request, "registry:admin", lambda a, by, why: a.withdraw(*_version(request), by, why))


@routes.post(f"{_VERSION}/revoke", name="revoke_version")
@described(contract.REVOKE)
async def revoke(request: web.Request) -> web.Response:
    """Take a version out. What waits for the agent is held; none of it is lost."""

    async def act(agents: Agents, by: str, why: str) -> Outcome:
        agent, version = _version(request)
        return await agents.revoke(agent, by, why, version)

    return await _decide(request, "registry:admin", act)


@routes.post(f"{_VERSION}/hold", name="hold_version")
@described(contract.HOLD_VERSION)
async def hold_version(request: web.Request) -> web.Response:
    """Start no attempt to the agent, for any tenant, until the version is resumed."""
    return await _decide(request, "registry:admin", lambda a, by, why: a.hold_version(*_version(request), by, why))


@routes.post(f"{_VERSION}/resume", name="resume_version")
@described(contract.RESUME_VERSION)
async def resume_version(request: web.Request) -> web.Response:
    """End the hold of a version: what waited goes out."""
    return await _decide(request, "registry:admin", lambda a, by, why: a.resume_version(*_version(request), by, why))


@routes.post(f"{_VERSION}/same-specialist", name="declare_same_specialist")
@described(contract.SAME_SPECIALIST)
async def same_specialist(request: web.Request) -> web.Response:
    """Say that what is in force is the same specialist as this version of it, which moved.

    What is held because it was earned at that version's origin goes to the one in force.
    """
    return await _decide(request, "registry:admin", lambda a, by, why: a.declare_same(*_version(request), by, why))


@routes.post(f"{_AGENT}/hold", name="hold_agent")
@described(contract.HOLD)
async def hold(request: web.Request) -> web.Response:
    """Start no attempt to the agent for the operator's own tenant. An attempt under way finishes."""
    return await _decide(request, "operator:write", lambda a, by, why: a.hold(*_own(request), by, why))


@routes.post(f"{_AGENT}/resume", name="resume_agent")
@described(contract.RESUME)
async def resume(request: web.Request) -> web.Response:
    """End the tenant's hold: what waited goes out."""
    return await _decide(request, "operator:write", lambda a, by, why: a.resume(*_own(request), by, why))


async def _decide(request: web.Request, scope: OperatorScope, act: Decide) -> web.Response:
    principal = await authorize_operator(request, scope)
    read_query(request, NoParameters)
    path_identifier(request, "agent")
    body = await read_json(request, ReasonBody, max_bytes=request.app[MAX_BODY_BYTES])
    try:
        outcome = await act(request.app[AGENTS], await actor(request, principal), body.why)
    except UnknownAgentError:
        await _view(request, principal.tenant)  # without an agent it is the agent that is not there
        raise no_version() from None
    except NotApplicableError as error:
        raise not_applicable(error) from None
    return json_answer(decided(await _view(request, principal.tenant), outcome))


async def _view(request: web.Request, tenant: str) -> View:
    view = await request.app[VIEWS].one(AgentId(path_identifier(request, "agent")), tenant=tenant)
    if view is None:
        raise no_agent()
    return view


def _own(request: web.Request) -> tuple[str, AgentId]:
    """The caller's own tenant, and the agent."""
    return request[PRINCIPAL].tenant, AgentId(path_identifier(request, "agent"))


def _version(request: web.Request) -> tuple[AgentId, Version]:
    """Anything that is no number of a version is simply not there."""
    number = request.match_info["version"]
    version = int(number) if number.isascii() and number.isdigit() and len(number) < 10 else 0  # noqa: PLR2004
    return AgentId(path_identifier(request, "agent")), Version(version)
