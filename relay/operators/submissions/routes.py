"""``/api/operator/submissions``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.bodies import read_json
from relay.http.limits import MAX_BODY_BYTES
from relay.http.operations import described
from relay.http.parameters import NoParameters, read_query, segment
from relay.identity.authentication import authorize_operator
from relay.operators.actors import actor
from relay.operators.agents.wire import ReasonBody
from relay.operators.paging import Place
from relay.operators.submissions import contract
from relay.operators.submissions.actions import Actions, absent
from relay.operators.submissions.model import Story, Submission
from relay.operators.submissions.store import Submissions
from relay.operators.submissions.wire import SubmissionsQuery, TenantSubmissionPage, done, shown, told

SUBMISSIONS: Final = web.AppKey("tenant_submissions", Submissions)
ACTIONS: Final = web.AppKey("submission_actions", Actions)

_ONE: Final = f"/api/operator/submissions/{segment('owner')}/{segment('id')}"

routes = web.RouteTableDef()


@routes.get("/api/operator/submissions", name="search_submissions")
@described(contract.LIST)
async def page(request: web.Request) -> web.Response:
    """The submissions of the operator's own tenant, newest first."""
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, SubmissionsQuery)
    wanted = query.wanted()
    filters = (getattr(query, name) for name in query.__struct_fields__ if name not in {"limit", "cursor"})
    place: Place[Submission] = Place(request, principal.tenant, "submissions", *filters, cursor=query.cursor)
    submissions = request.app[SUBMISSIONS]
    found = await submissions.page(principal.tenant, wanted, before=place.position, most=query.limit + 1)
    total = await submissions.count(principal.tenant, wanted)
    items, following = place.page(found, query.limit, lambda one: one.seq)
    return json_answer(TenantSubmissionPage([shown(one) for one in items], following, total))


@routes.get(_ONE, name="show_submission")
@described(contract.SHOW)
async def show(request: web.Request) -> web.Response:
    """One submission with its provenance, its evidence and the timeline of its attempts."""
    principal = await authorize_operator(request, "operator:read")
    read_query(request, NoParameters)
    return json_answer(told(await _story(request, principal.tenant)))


@routes.post(f"{_ONE}/retry", name="retry_submission")
@described(contract.RETRY)
async def retry(request: web.Request) -> web.Response:
    """Have a submission sent again, with the same UUID and bytes.

    One that was rejected, exhausted or abandoned starts a new schedule; one that waits is due at once. A wait that the
    specialist asked for, an open breaker and a hold stand, and what needs its owner goes on waiting for them: see
    ``obstacles``.
    """
    principal = await authorize_operator(request, "operator:write")
    read_query(request, NoParameters)
    body = await read_json(request, ReasonBody, max_bytes=request.app[MAX_BODY_BYTES])
    by = await actor(request, principal)
    acted = await request.app[ACTIONS].retry(principal.tenant, *_named(request), by=by, why=body.why)
    return json_answer(done(acted, await _story(request, principal.tenant)))


@routes.post(f"{_ONE}/abandon", name="abandon_submission")
@described(contract.ABANDON)
async def abandon(request: web.Request) -> web.Response:
    """Give up a submission that waits. An acknowledgement that is still under way wins; an operator can reopen it."""
    principal = await authorize_operator(request, "operator:write")
    read_query(request, NoParameters)
    body = await read_json(request, ReasonBody, max_bytes=request.app[MAX_BODY_BYTES])
    by = await actor(request, principal)
    acted = await request.app[ACTIONS].abandon(principal.tenant, *_named(request), by=by, why=body.why)
    return json_answer(done(acted, await _story(request, principal.tenant)))


async def _story(request: web.Request, tenant: str) -> Story:
    story = await request.app[SUBMISSIONS].story(tenant, *_named(request))
    if story is None:
        raise absent()
    return story


def _named(request: web.Request) -> tuple[str, str]:
    """The owner's key and the UUID as stored. Anything that is none of these is simply not there."""
    return request.match_info["owner"], request.match_info["id"].lower()
