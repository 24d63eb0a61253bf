"""The operators' API without a gateway and without tokens: for emergencies, to whoever can open the database.

It is the same application over the same rows. Nothing may reach it but the process that made it: see
`relay.cli.operators.direct`.
"""

import secrets
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from relay.clock import SystemClock
from relay.config import Config
from relay.http import problems
from relay.http.cursors import Cursors
from relay.http.limits import MAX_BODY_BYTES
from relay.identity.authentication import OPERATORS, PRINCIPAL
from relay.identity.model import Principal
from relay.identity.operators import Operators
from relay.operators import actors
from relay.operators.agents import Agents
from relay.operators.agents import routes as agents
from relay.operators.agents.proposing import Proposals
from relay.operators.agents.views import Views
from relay.operators.analytics import routes as analytics
from relay.operators.analytics.store import Analytics
from relay.operators.audit_trail import routes as audit_trail
from relay.operators.audit_trail.store import AuditTrail
from relay.operators.export import routes as export
from relay.operators.export.exporting import Exports
from relay.operators.jobs import routes as jobs
from relay.operators.jobs.asking import Bulk
from relay.operators.jobs.store import Jobs
from relay.operators.paging import CURSORS
from relay.operators.submissions import routes as submissions
from relay.operators.submissions.actions import Actions
from relay.operators.submissions.store import Submissions
from relay.operators.tasks import routes as tasks
from relay.operators.tasks.store import OddTasks
from relay.storage.engine import Database

ISSUER: Final = "direct"
"""Stands where a token would name its issuer. It is never stored: the audit log has the account's name."""

ROUTES: Final = (
    *submissions.routes,
    *jobs.routes,
    *tasks.routes,
    *audit_trail.routes,
    *analytics.routes,
    *export.routes,
    *agents.routes,
)


def application(db: Database, config: Config, *, tenant: str, actor: str) -> web.Application:
    """Every request of it is made by ``actor``, as an operator of ``tenant`` who may do everything.

    Gateways and workers that run see what it does by polling, or by a notice of the database's.
    """
    app = web.Application(middlewares=[problems.middleware, _as(tenant, actor)])
    app[MAX_BODY_BYTES] = config.server.max_body_bytes
    app[OPERATORS] = Operators(clock=SystemClock(), admin_issuers=(ISSUER,))
    app[actors.LOCAL_ACTOR] = actor
    cursors = Cursors(secrets.token_bytes(32))
    app[CURSORS] = cursors
    app[agents.LIST_CURSORS] = cursors
    app[agents.AGENTS] = Agents(db, four_eyes=config.registry.four_eyes)
    app[agents.VIEWS] = Views(db, config.agents)
    app[agents.PROPOSALS] = Proposals(db, config)
    app[submissions.SUBMISSIONS] = Submissions(db)
    app[submissions.ACTIONS] = Actions(db, _nobody_here)
    app[jobs.JOBS] = Jobs(db)
    app[jobs.BULK] = Bulk(db, app[jobs.JOBS], _nobody_here)
    app[tasks.ODD_TASKS] = OddTasks(db, long_running_seconds=config.operators.long_running_seconds)
    app[audit_trail.AUDIT_TRAIL] = AuditTrail(db)
    app[analytics.ANALYTICS] = Analytics(db)
    app[export.EXPORTS] = Exports(db, app[submissions.SUBMISSIONS])
    app.add_routes(ROUTES)
    return app


def _as(tenant: str, actor: str) -> Middleware:
    principal = Principal(
        kind="human",
        issuer=ISSUER,
        client=ISSUER,
        subject=actor,
        tenant=tenant,
        scopes=frozenset({"operator:read", "operator:write", "registry:admin"}),
        expires_at=float("inf"),
        token="",
    )

    @web.middleware
    async def identified(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[PRINCIPAL] = principal
        return await handler(request)

    return identified


def _nobody_here() -> None:
    """No worker runs in this process that could be told."""
