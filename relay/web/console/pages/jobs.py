"""``/console/jobs``: work on many submissions, and how far it has come."""

from typing import get_args

from aiohttp import web

from relay.errors import Refusal
from relay.http.parameters import NoParameters, read_query, segment
from relay.operators.actors import actor
from relay.operators.jobs.asking import absent
from relay.operators.jobs.model import OPEN, Job, JobId, JobState
from relay.operators.jobs.routes import BULK, JOBS
from relay.operators.jobs.wire import JobsQuery
from relay.operators.paging import Place
from relay.operators.submissions.filter import SubmissionFilter, said
from relay.web.console.pages.asked import asked
from relay.web.console.pages.refusing import not_done
from relay.web.console.pages.submissions import LABELS
from relay.web.console.shell import ROOT, Pages, render, see_other
from relay.web.console.visits import Visit

pages = Pages()


@pages.get("/jobs", name="console_jobs", nav="Jobs")
async def jobs(request: web.Request, visit: Visit) -> web.StreamResponse:
    """The tenant's jobs, newest first."""
    wanted, tenant = asked(request, JobsQuery, visit.zone), visit.principal.tenant
    state, store = wanted.query.state, request.app[JOBS]
    place: Place[Job] = Place(request, tenant, "console jobs", state, cursor=wanted.query.cursor)
    found = await store.page(tenant, state, before=place.position, most=wanted.query.limit + 1)
    items, following = place.page(found, wanted.query.limit, lambda job: job.seq)
    values = {
        "items": items,
        "total": f"{await store.count(tenant, state):,}",
        "following": None if following is None else wanted.address(cursor=following),
        "first": None if wanted.query.cursor is None else wanted.address(),
        "fields": wanted.fields,
        "chips": wanted.chips(),
        "labels": LABELS,
        "states": get_args(JobState),
    }
    return render(request, visit, "jobs.html", values)


@pages.get(f"/jobs/{segment('job')}", name="console_job")
async def show(request: web.Request, visit: Visit) -> web.StreamResponse:
    """How far a job has come, and what it did."""
    read_query(request, NoParameters)
    job = await request.app[JOBS].find(visit.principal.tenant, _id(request))
    if job is None:
        raise absent()
    values = {
        "job": job,
        "open": job.state in OPEN,
        "filter": words_of(job.filter),
        "labels": LABELS,
        "may_write": "operator:write" in visit.principal.scopes,
    }
    return render(request, visit, "job.html", values)


@pages.post(f"/jobs/{segment('job')}/cancel", name="console_job_cancel")
async def cancel(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Touch nothing more; what was done stays."""
    job = _id(request)
    address = f"{ROOT}/jobs/{job}"
    try:
        await request.app[BULK].cancel(visit.principal.tenant, job, by=await actor(request, visit.principal))
    except Refusal as refusal:
        if refusal.code == "job_not_found":
            raise
        return not_done(request, visit, refusal, address=address, label="The job as it stands now")
    return see_other(request, address, "The job is canceled. What it has done stays.")


def words_of(wanted: SubmissionFilter) -> dict[str, object]:
    """A filter by the names of its members; times are milliseconds."""
    return said(wanted)


def _id(request: web.Request) -> JobId:
    return JobId(request.match_info["job"].lower())
