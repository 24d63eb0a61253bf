"""``/console/tasks``: recorded tasks that somebody should look at."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from relay.operators.paging import Place
from relay.operators.tasks.routes import ODD_TASKS
from relay.operators.tasks.store import Contested, Running
from relay.operators.tasks.wire import TasksQuery
from relay.web.console.pages.asked import Asked, asked
from relay.web.console.pages.submissions import agents_of
from relay.web.console.shell import Pages, render
from relay.web.console.visits import Visit

pages = Pages()


@pages.get("/tasks", name="console_tasks", nav="Tasks")
async def contested(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Those that are recorded under several owners: one of them was recorded wrongly."""
    wanted, tenant = asked(request, TasksQuery, visit.zone), visit.principal.tenant
    query, tasks = wanted.query, request.app[ODD_TASKS]
    place: Place[Contested] = Place(request, tenant, "console contested", query.agent, cursor=query.cursor)
    found = await tasks.contested(tenant, query.agent, after=place.position or 0, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda task: task.seq)
    total = await tasks.count_contested(tenant, query.agent)
    values = await _values(request, wanted, following)
    return render(request, visit, "tasks.html", {**values, "items": items, "total": f"{total:,}", "which": "contested"})


@pages.get("/tasks/long-running", name="console_long_running")
async def long_running(request: web.Request, visit: Visit) -> web.StreamResponse:
    """Those that are said to run for longer than the deployment expects, the oldest first."""
    wanted, tenant = asked(request, TasksQuery, visit.zone), visit.principal.tenant
    query, tasks = wanted.query, request.app[ODD_TASKS]
    place: Place[Running] = Place(request, tenant, "console long-running", query.agent, cursor=query.cursor)
    found = await tasks.long_running(tenant, query.agent, after=place.position or 0, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda task: task.seq)
    total = await tasks.count_long_running(tenant, query.agent)
    values = await _values(request, wanted, following)
    return render(request, visit, "tasks.html", {**values, "items": items, "total": f"{total:,}", "which": "running"})


async def _values(request: web.Request, wanted: Asked[TasksQuery], following: str | None) -> Mapping[str, Any]:
    return {
        "following": None if following is None else wanted.address(cursor=following),
        "first": None if wanted.query.cursor is None else wanted.address(),
        "here": wanted.path,
        "fields": wanted.fields,
        "chips": wanted.chips(),
        "agents": await agents_of(request),
    }
