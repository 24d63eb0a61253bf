"""``/api/operator/audit``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.operations import described
from relay.http.parameters import read_query
from relay.identity import scopes
from relay.identity.authentication import OPERATORS, authorize_operator
from relay.identity.model import Principal
from relay.operators.audit_trail import contract
from relay.operators.audit_trail.store import AuditTrail, Entry
from relay.operators.audit_trail.wire import AuditPage, AuditQuery, shown
from relay.operators.paging import Place

AUDIT_TRAIL: Final = web.AppKey("audit_trail", AuditTrail)

routes = web.RouteTableDef()


@routes.get("/api/operator/audit", name="read_audit")
@described(contract.READ)
async def read(request: web.Request) -> web.Response:
    """Who decided what, newest first: the entries of the operator's own tenant.

    What concerns the whole deployment, such as approvals of agents, is told to those whose ``registry:admin`` counts.
    """
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, AuditQuery)
    wanted, deployment = query.wanted(), administers(request, principal)
    filters = (query.actor, query.action, query.target, query.since, query.until, deployment)
    place: Place[Entry] = Place(request, principal.tenant, "audit", *filters, cursor=query.cursor)
    trail, tenant = request.app[AUDIT_TRAIL], principal.tenant
    found = await trail.page(tenant, wanted, deployment=deployment, before=place.position, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda entry: entry.seq)
    total = await trail.count(tenant, wanted, deployment=deployment)
    return json_answer(AuditPage([shown(entry) for entry in items], following, total))


def administers(request: web.Request, principal: Principal) -> bool:
    """The sign-in itself has been looked at for the scope that the route asks for."""
    admins = request.config_dict[OPERATORS].admin_issuers
    return scopes.holds(principal, "registry:admin") and principal.issuer in admins
