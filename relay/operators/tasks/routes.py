"""``/api/operator/contested-tasks`` and ``/api/operator/long-running-tasks``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.operations import described
from relay.http.parameters import read_query
from relay.identity.authentication import authorize_operator
from relay.operators.paging import Place
from relay.operators.tasks import contract, wire
from relay.operators.tasks.store import Contested, OddTasks, Running
from relay.operators.tasks.wire import ContestedPage, LongRunningPage, TasksQuery

ODD_TASKS: Final = web.AppKey("odd_tasks", OddTasks)

routes = web.RouteTableDef()


@routes.get("/api/operator/contested-tasks", name="contested_tasks")
@described(contract.CONTESTED)
async def contested(request: web.Request) -> web.Response:
    """Tasks of the tenant that are recorded under several owners: one of them was recorded wrongly."""
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, TasksQuery)
    place: Place[Contested] = Place(request, principal.tenant, "contested", query.agent, cursor=query.cursor)
    tasks, tenant = request.app[ODD_TASKS], principal.tenant
    found = await tasks.contested(tenant, query.agent, after=place.position or 0, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda task: task.seq)
    total = await tasks.count_contested(tenant, query.agent)
    return json_answer(ContestedPage([wire.contested(task) for task in items], following, total))


@routes.get("/api/operator/long-running-tasks", name="long_running_tasks")
@described(contract.LONG_RUNNING)
async def long_running(request: web.Request) -> web.Response:
    """Tasks of the tenant that are said to run for longer than the deployment expects, the oldest first."""
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, TasksQuery)
    place: Place[Running] = Place(request, principal.tenant, "long-running", query.agent, cursor=query.cursor)
    tasks, tenant = request.app[ODD_TASKS], principal.tenant
    found = await tasks.long_running(tenant, query.agent, after=place.position or 0, most=query.limit + 1)
    items, following = place.page(found, query.limit, lambda task: task.seq)
    total = await tasks.count_long_running(tenant, query.agent)
    return json_answer(LongRunningPage([wire.running(task) for task in items], following, total))
