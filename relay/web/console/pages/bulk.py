"""``/console/submissions/bulk/{kind}``: many submissions at once, by filter: counted first, then done as a job."""

from typing import Final

from aiohttp import web

from relay.errors import Refusal
from relay.operators.actors import actor
from relay.operators.jobs.routes import BULK
from relay.operators.submissions.model import CHANGING, Action
from relay.operators.submissions.wire import FilterQuery
from relay.web.console.pages.asked import asked
from relay.web.console.pages.refusing import not_done, reason
from relay.web.console.pages.submissions import agents_of, form_of
from relay.web.console.shell import ROOT, Pages, render, see_other
from relay.web.console.visits import Visit

_PATH: Final = "/submissions/bulk/{kind:retry|abandon}"

pages = Pages()


@pages.get(_PATH, name="console_bulk", scope="operator:write")
async def forecast(request: web.Request, visit: Visit) -> web.StreamResponse:
    """A dry run: how many the filter means, and what would be done to them. Nothing is."""
    kind = _kind(request)
    wanted = asked(request, FilterQuery, visit.zone)
    found = await request.app[BULK].forecast(visit.principal.tenant, kind, wanted.query.wanted())
    values = {
        "kind": kind,
        "found": found,
        "changed": sum(count for outcome, count in found.would.items() if outcome in CHANGING),
        "changing": CHANGING,
        "list": wanted.address(f"{ROOT}/submissions"),
        "here": wanted.address(),
        **form_of(wanted, await agents_of(request)),
    }
    return render(request, visit, "bulk.html", values)


@pages.post(_PATH, name="console_bulk_start")
async def start(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Write the job down, under the filter in the page's address, and show how far it is."""
    kind = _kind(request)
    wanted = asked(request, FilterQuery, visit.zone)
    try:
        why = reason(visit)
    except Refusal as refusal:
        return not_done(request, visit, refusal, address=wanted.address(), label="What would be done")
    by = await actor(request, visit.principal)
    job = await request.app[BULK].ask(visit.principal.tenant, kind, wanted.query.wanted(), by=by, why=why)
    return see_other(request, f"{ROOT}/jobs/{job.id}", "The job is written down. It goes on if you leave this page.")


def _kind(request: web.Request) -> Action:
    return "retry" if request.match_info["kind"] == "retry" else "abandon"
