"""The gateway's routes, and ``/openapi.json``, which describes them."""

from functools import cache
from typing import Any, Final

import msgspec
from aiohttp import web

from registry.model import Obstacle, RanAs, RegistrationState
from registry.protocols.contract import Rating
from relay import feedback, health, provenance
from relay import web as pages
from relay.delivery.model import Cause, End, Evidence, State
from relay.http import openapi
from relay.http.operations import UNLIMITED, Answer, Operation, described, operation_of
from relay.operators.agents import routes as agents
from relay.operators.agents.health import BreakerState
from relay.operators.agents.views import Standing
from relay.operators.analytics import routes as analytics
from relay.operators.audit_trail import routes as audit_trail
from relay.operators.export import routes as export
from relay.operators.jobs import routes as jobs
from relay.operators.jobs.model import JobState
from relay.operators.submissions import routes as submissions
from relay.operators.submissions.model import Action, ObstacleKind, Outcome
from relay.operators.tasks import routes as tasks
from relay.provenance.model import Role, Status

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

WORDS: Final = {
    "Rating": Rating,
    "RanAs": RanAs,
    "RegistrationState": RegistrationState,
    "Obstacle": Obstacle,
    "TaskRole": Role,
    "TaskStatus": Status,
    "DeliveryState": State,
    "AttemptCause": Cause,
    "AttemptOutcome": End,
    "Evidence": Evidence,
    "ObstacleKind": ObstacleKind,
    "Action": Action,
    "ActionOutcome": Outcome,
    "JobState": JobState,
    "AgentState": Standing,
    "BreakerState": BreakerState,
}
"""The names that generated clients have for our words."""

UNCOUNTED: Final = frozenset(
    route.kwargs["name"]
    for route in ROUTES
    if isinstance(route, web.RouteDef) and operation_of(route.handler).tag in UNLIMITED
)
"""The names of the routes without limits: who watches the relay is not to be kept out when there is much to see."""


def document() -> dict[str, Any]:
    """The gateway's contract in OpenAPI 3.1."""
    return openapi.document(ROUTES, WORDS)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document())
