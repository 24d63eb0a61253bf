"""``/console/agents``: the deployment's agents, and how they fare for the operator's own tenant."""

from typing import Final, get_args

from aiohttp import web

from relay.http.cursors import scope_of
from relay.operators.agents.health import BreakerState
from relay.operators.agents.routes import LIST_CURSORS, VIEWS
from relay.operators.agents.views import Standing, Wanted
from relay.operators.agents.wire import AgentsQuery
from relay.web.console.pages.asked import asked
from relay.web.console.shell import Pages, render
from relay.web.console.visits import Visit

WAITING: Final = ("pending", "sending", "held", "needs_owner")

pages = Pages()


@pages.get("/agents", name="console_agents", nav="Agents")
async def agents(request: web.Request, visit: Visit) -> web.StreamResponse:
    """The agents, by id."""
    wanted, tenant = asked(request, AgentsQuery, visit.zone), visit.principal.tenant
    query, cursors = wanted.query, request.app[LIST_CURSORS]
    scope = scope_of(tenant, "console agents", query.state, query.breaker, query.protocol)
    after = "" if query.cursor is None else str(cursors.read(scope, query.cursor)[0])
    found = await request.app[VIEWS].all(Wanted(query.state, query.breaker, query.protocol), tenant=tenant)
    rest = [view for view in found if view.agent.id > after]
    items = rest[: query.limit]
    following = cursors.issue(scope, [items[-1].agent.id]) if len(rest) > query.limit else None
    values = {
        "items": items,
        "waiting": WAITING,
        "total": f"{len(found):,}",
        "following": None if following is None else wanted.address(cursor=following),
        "first": None if query.cursor is None else wanted.address(),
        "fields": wanted.fields,
        "chips": wanted.chips(),
        "states": get_args(Standing),
        "breakers": get_args(BreakerState),
    }
    return render(request, visit, "agents.html", values)
