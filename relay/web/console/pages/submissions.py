"""``/console/submissions``: searching the tenant's submissions."""

import asyncio
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, Final, get_args

from aiohttp import web

from registry.protocols.contract import Rating
from relay.delivery.model import Evidence, State
from relay.operators.agents.routes import AGENTS
from relay.operators.paging import Place
from relay.operators.submissions.model import Submission
from relay.operators.submissions.routes import SUBMISSIONS
from relay.operators.submissions.wire import SubmissionsQuery
from relay.web.console.pages.asked import Asked, asked
from relay.web.console.pages.totals import MOST_COUNTED, Total
from relay.web.console.shell import ROOT, Pages, render
from relay.web.console.visits import Visit
from relay.web.console.wording import words

LABELS: Final[Mapping[str, str]] = {
    "q": "comment",
    "state": "state",
    "agent": "agent",
    "rating": "rating",
    "evidence": "evidence",
    "owner": "owner",
    "client": "client",
    "since": "from",
    "until": "before",
}
_CODES: Final = frozenset({"state", "evidence"})
_RARE: Final = frozenset({"evidence", "owner", "client", "since", "until"})

pages = Pages()


@pages.get("/submissions", name="console_submissions", nav="Submissions")
async def submissions(request: web.Request, visit: Visit) -> web.StreamResponse:
    """A page of those that the filter means, newest first."""
    wanted = asked(request, SubmissionsQuery, visit.zone)
    query, tenant = wanted.query, visit.principal.tenant
    chosen = query.wanted()
    place: Place[Submission] = Place(request, tenant, "console submissions", *astuple(chosen), cursor=query.cursor)
    store = request.app[SUBMISSIONS]
    found, counted, agents = await asyncio.gather(
        store.page(tenant, chosen, before=place.position, most=query.limit + 1),
        store.count(tenant, chosen, most=MOST_COUNTED + 1),
        agents_of(request),
    )
    items, following = place.page(found, query.limit, lambda one: one.seq)
    values = {
        "items": items,
        "total": Total(counted),
        "following": None if following is None else wanted.address(cursor=following),
        "first": None if query.cursor is None else wanted.address(),
        **form_of(wanted, agents),
    }
    return render(request, visit, "submissions.html", values)


def form_of(wanted: Asked[Any], agents: list[str]) -> Mapping[str, Any]:
    """What the form of the filter, its chips, and the ways to bulk work are made of."""
    return {
        "fields": wanted.fields,
        "narrowed": not _RARE.isdisjoint(wanted.fields),
        "since": wanted.local("since"),
        "until": wanted.local("until"),
        "zone": wanted.zone.key,
        "chips": wanted.chips(lambda name, value: words(value) if name in _CODES else value),
        "labels": LABELS,
        "states": get_args(State),
        "ratings": get_args(Rating),
        "evidences": get_args(Evidence),
        "agents": agents,
        "bulk": {kind: wanted.address(f"{ROOT}/submissions/bulk/{kind}") for kind in ("retry", "abandon")},
    }


async def agents_of(request: web.Request) -> list[str]:
    """The ids of the agents that a list can be narrowed to."""
    return sorted(await request.app[AGENTS].snapshot())
