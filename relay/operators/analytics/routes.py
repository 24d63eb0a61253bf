"""``/api/analytics``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.operations import described
from relay.http.parameters import invalid_parameter, read_query
from relay.identity.authentication import authenticate, authorize, authorize_operator
from relay.operators.actors import OPERATOR_OWNERS
from relay.operators.analytics import contract
from relay.operators.analytics.model import NOTHING, Breakdown
from relay.operators.analytics.store import Analytics
from relay.operators.analytics.wire import AnalyticsQuery, shown
from relay.operators.analytics.zones import zone_named
from relay.operators.submissions.filter import Condition, condition, own_condition

ANALYTICS: Final = web.AppKey("analytics", Analytics)

routes = web.RouteTableDef()


@routes.get("/api/analytics", name="analytics")
@described(contract.ANALYZE)
async def analyze(request: web.Request) -> web.Response:
    """How ratings fare: counts, the share of thumbs up, the time until they were saved, and why they are not.

    ``scope=own`` is about the caller's own submissions and takes ``feedback:read``; ``scope=all`` about those of an
    operator's tenant and takes ``operator:read``. The totals are those of the lists under the same filter.
    """
    await authenticate(request)
    query = read_query(request, AnalyticsQuery)
    where = await _tenants(request, query) if query.scope == "all" else await _own(request, query)
    zone = await zone_named(query.zone)
    if where is None:
        return json_answer(shown(query, Breakdown(total=NOTHING, parts=[])))
    return json_answer(shown(query, await request.app[ANALYTICS].figures(where, query.by, zone)))


async def _tenants(request: web.Request, query: AnalyticsQuery) -> Condition:
    principal = await authorize_operator(request, "operator:read")
    return condition(principal.tenant, query.wanted())


async def _own(request: web.Request, query: AnalyticsQuery) -> Condition | None:
    """None: nothing was ever stored of the caller."""
    principal = await authorize(request, "feedback:read")
    if query.owner is not None:
        raise invalid_parameter("owner", "it goes with scope=all; with scope=own the owner is the caller")
    wanted = query.wanted()
    owner = await request.app[OPERATOR_OWNERS].find(principal.owner)
    return None if owner is None else own_condition(owner.id, wanted)
