"""``/console/live/…``: streams that say when a page is out of date. What they say is nothing but that."""

import asyncio
from typing import Final

import structlog
from aiohttp import web
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from relay.http.events import KEEP_ALIVE_SECONDS, EventStream
from relay.http.parameters import segment
from relay.redaction import outline
from relay.web.console.shell import Pages
from relay.web.console.visits import Visit
from relay.web.console.watches import EVERY_SECONDS, WATCHES, TenantWatch, Watch

SECONDS: Final = 60.0
"""A stream ends after this time and the browser opens it again: then its session is looked at again."""

log = structlog.get_logger(__name__)

pages = Pages()


@pages.get("/live/tenant", name="console_live_tenant")
async def tenant(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Something happened to a submission of the tenant, or to an agent."""
    return await _told(request, request.app[WATCHES].tenant(visit.principal.tenant))


@pages.get(f"/live/submissions/{segment('owner')}/{segment('id')}", name="console_live_submission")
async def submission(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Something happened to this submission; of one that is not there nothing ever does."""
    named = (request.match_info["owner"], request.match_info["id"].lower())
    return await _told(request, request.app[WATCHES].submission(visit.principal.tenant, *named))


@pages.get("/live/jobs", name="console_live_jobs")
async def jobs(request: web.Request, visit: Visit) -> web.StreamResponse:
    """One of the tenant's newest jobs has come further, or there is a new one."""
    return await _told(request, request.app[WATCHES].jobs(visit.principal.tenant))


@pages.get(f"/live/jobs/{segment('job')}", name="console_live_job")
async def job(request: web.Request, visit: Visit) -> web.StreamResponse:
    """A job has come further."""
    return await _told(request, request.app[WATCHES].job(visit.principal.tenant, request.match_info["job"].lower()))


async def _told(request: web.Request, watch: Watch | TenantWatch) -> web.StreamResponse:
    async with EventStream(request, seconds=SECONDS) as stream:
        try:
            # The page is got once more when the stream has opened: what it then shows is at least this new.
            await watch.changed()
            await _follow(stream, watch)
        except (DBAPIError, PoolTimeoutError, OSError) as error:
            if isinstance(error, ConnectionError | TimeoutError):
                raise  # the reader has gone, or the time is over
            log.warning("console_stream_interrupted", **outline(error))
    return stream.response


async def _follow(stream: EventStream, watch: Watch | TenantWatch) -> None:
    quiet = 0.0
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if await watch.changed():
            await stream.send("{}", event="change")
            quiet = 0.0
        elif (quiet := quiet + EVERY_SECONDS) >= KEEP_ALIVE_SECONDS:
            await stream.keep_alive()
            quiet = 0.0
