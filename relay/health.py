"""``/healthz``, ``/readyz`` and ``/metrics``: for those who run the relay."""

from typing import Final

from aiohttp import web
from msgspec import Struct
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from relay.feedback.acceptance import Acceptance
from relay.http.answers import json_answer
from relay.http.operations import Answer, Operation, described
from relay.identity.keys import KeySets
from relay.operators.standing import Standing
from relay.storage import schema
from relay.storage.engine import Database
from relay.telemetry import Metrics


class Alive(Struct, frozen=True):
    """The process answers."""

    status: str = "alive"


class Readiness(Struct, frozen=True):
    """What a gateway needs to take requests, each ``ok`` or what is missing."""

    ready: bool
    database: str
    migrations: str
    keys: str


class Health:
    """Looks at what the process depends on."""

    def __init__(
        self, db: Database, keys: KeySets, metrics: Metrics, standing: Standing, acceptance: Acceptance
    ) -> None:
        self._db = db
        self._keys = keys
        self._metrics = metrics
        self._standing = standing
        self._acceptance = acceptance

    async def readiness(self) -> Readiness:
        missing = [status.issuer for status in self._keys.status() if not status.usable]
        if missing:
            # Asking again here brings a gateway back that was started before its issuer.
            await self._keys.load()
            missing = [status.issuer for status in self._keys.status() if not status.usable]
        keys = f"no usable keys of {', '.join(missing)}" if missing else "ok"
        try:
            status = await schema.status(self._db)
        except (DBAPIError, PoolTimeoutError, OSError):
            return Readiness(ready=False, database="cannot be reached", migrations="unknown", keys=keys)
        migrations = "ok" if status.is_current else f"at {status.current or 'none'}, needs {status.newest}"
        ready = status.is_current and not missing
        return Readiness(ready=ready, database="ok", migrations=migrations, keys=keys)

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        await self._standing.refresh()
        self._metrics.gauges.accept_queue(len(self._acceptance), self._acceptance.capacity)
        return self._metrics.render(accept)


ALIVE: Final = Operation(
    tag="operation", query=None, database=False, answers={200: Answer("The process answers.", Alive)}
)
READY: Final = Operation(
    tag="operation",
    query=None,
    database=False,
    answers={
        200: Answer("Requests can be taken.", Readiness),
        503: Answer("Something is missing.", Readiness),
    },
)
METRICS: Final = Operation(
    tag="operation",
    query=None,
    answers={
        200: Answer("In the format that was asked for.", media_types=("text/plain", "application/openmetrics-text"))
    },
)

HEALTH: Final = web.AppKey("health", Health)

routes = web.RouteTableDef()


@routes.get("/healthz", name="healthz")
@described(ALIVE)
async def alive(_request: web.Request) -> web.Response:
    """Whether the process answers."""
    return json_answer(Alive())


@routes.get("/readyz", name="readyz")
@described(READY)
async def ready(request: web.Request) -> web.Response:
    """Whether requests can be taken: the database, its migrations and the issuers' keys."""
    readiness = await request.app[HEALTH].readiness()
    return json_answer(readiness, status=200 if readiness.ready else 503)


@routes.get("/metrics", name="metrics")
@described(METRICS)
async def metrics(request: web.Request) -> web.Response:
    """Prometheus metrics."""
    body, content_type = await request.app[HEALTH].metrics(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})
