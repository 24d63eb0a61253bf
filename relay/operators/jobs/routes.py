"""``/api/operator/jobs``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.bodies import read_json
from relay.http.limits import MAX_BODY_BYTES
from relay.http.operations import described
from relay.http.parameters import NoParameters, read_query, segment
from relay.identity.authentication import authorize_operator
from relay.operators.actors import actor
from relay.operators.jobs import contract
from relay.operators.jobs.asking import Bulk, absent
from relay.operators.jobs.model import Job, JobId
from relay.operators.jobs.store import Jobs
from relay.operators.jobs.wire import JobBody, JobsPage, JobsQuery, forecast, shown
from relay.operators.paging import Place

JOBS: Final = web.AppKey("jobs", Jobs)
BULK: Final = web.AppKey("bulk", Bulk)

routes = web.RouteTableDef()


@routes.post("/api/operator/jobs", name="create_job")
@described(contract.CREATE)
async def create(request: web.Request) -> web.Response:
    """Retry or abandon every submission of the tenant under a filter.

    Begin with ``dryRun``: it counts by state and says what would be done. Submissions that come in later are not
    touched, and each is done as if it were the only one.
    """
    principal = await authorize_operator(request, "operator:write")
    read_query(request, NoParameters)
    body = await read_json(request, JobBody, max_bytes=request.app[MAX_BODY_BYTES])
    wanted = body.filter.wanted()
    bulk = request.app[BULK]
    if body.dry_run:
        return json_answer(forecast(await bulk.forecast(principal.tenant, body.kind, wanted)))
    why = body.reason()
    job = await bulk.ask(principal.tenant, body.kind, wanted, by=await actor(request, principal), why=why)
    return json_answer(shown(job), status=201)


@routes.get("/api/operator/jobs", name="list_jobs")
@described(contract.LIST)
async def page(request: web.Request) -> web.Response:
    """The tenant's jobs, newest first."""
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, JobsQuery)
    place: Place[Job] = Place(request, principal.tenant, "jobs", query.state, cursor=query.cursor)
    jobs = request.app[JOBS]
    found = await jobs.page(principal.tenant, query.state, before=place.position, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda job: job.seq)
    total = await jobs.count(principal.tenant, query.state)
    return json_answer(JobsPage([shown(job) for job in items], following, total))


@routes.get(f"/api/operator/jobs/{segment('job')}", name="show_job")
@described(contract.SHOW)
async def show(request: web.Request) -> web.Response:
    """How far a job has come, and what it did."""
    principal = await authorize_operator(request, "operator:read")
    read_query(request, NoParameters)
    job = await request.app[JOBS].find(principal.tenant, _id(request))
    if job is None:
        raise absent()
    return json_answer(shown(job))


@routes.post(f"/api/operator/jobs/{segment('job')}/cancel", name="cancel_job")
@described(contract.CANCEL)
async def cancel(request: web.Request) -> web.Response:
    """Stop a job. Takes no body."""
    principal = await authorize_operator(request, "operator:write")
    read_query(request, NoParameters)
    job = await request.app[BULK].cancel(principal.tenant, _id(request), by=await actor(request, principal))
    return json_answer(shown(job))


def _id(request: web.Request) -> JobId:
    return JobId(request.match_info["job"].lower())
