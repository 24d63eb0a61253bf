"""The gateway's routes, and ``/openapi.json``, which describes them."""

from functools import cache
from typing import Any, Final

import msgspec
from aiohttp import web

from relay import feedback, health, provenance
from relay import web as pages
from relay.http import openapi
from relay.http.operations import UNLIMITED, Answer, Operation, described, operation_of
from relay.operators.agents import routes as agents
from relay.operators.analytics import routes as analytics
from relay.operators.audit_trail import routes as audit_trail
from relay.operators.export import routes as export
from relay.operators.jobs import routes as jobs
from relay.operators.submissions import routes as submissions
from relay.operators.tasks import routes as tasks

DESCRIBE: Final = Operation(
    tag="operation", query=None, database=False, answers={200: Answer("The document.", dict[str, Any])}
)

routes = web.RouteTableDef()


@routes.get("/openapi.json", name="openapi")
@described(DESCRIBE)
async def describe(_request: web.Request) -> web.Response:
    """Describe this API in OpenAPI 3.1."""
    return web.Response(body=_encoded(), content_type="application/json")


ROUTES: Final = (
    *health.routes,
    *provenance.routes,
    *feedback.routes,
    *submissions.routes,
    *jobs.routes,
    *tasks.routes,
    *audit_trail.routes,
    *analytics.routes,
    *export.routes,
    *agents.routes,
    *pages.routes,
    *routes,
)


UNCOUNTED: Final = frozenset(
    route.kwargs["name"]
    for route in ROUTES
    if isinstance(route, web.RouteDef) and operation_of(route.handler).tag in UNLIMITED
)
"""The names of the routes without limits: who watches the relay is not to be kept out when there is much to see."""


def document() -> dict[str, Any]:
    """The gateway's contract in OpenAPI 3.1."""
    return openapi.document(ROUTES)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document())
