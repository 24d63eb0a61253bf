"""``PUT /api/provenance/tasks/{agent}/{taskId}``"""

from typing import Final

from aiohttp import web

from relay.http.answers import json_answer
from relay.http.bodies import read_json
from relay.http.identifiers import path_identifier
from relay.http.limits import MAX_BODY_BYTES
from relay.http.operations import described
from relay.http.parameters import NoParameters, read_query, segment
from relay.identity.authentication import authorize
from relay.provenance import contract
from relay.provenance.recording import Recorder
from relay.provenance.wire import TaskBody, shown

RECORDER: Final = web.AppKey("recorder", Recorder)

routes = web.RouteTableDef()


@routes.put(f"/api/provenance/tasks/{segment('agent')}/{segment('taskId')}", name="record_task")
@described(contract.RECORD)
async def record(request: web.Request) -> web.Response:
    """Record a specialist or coordinator task, or one more word about it.

    The owner is the caller; a machine client may name a human ``subject`` that it acts for. Conversation, answer, role,
    ranAs and parent never change, the status goes from running to one terminal value and never back, evidence only
    grows. Records are kept per owner: nobody can block or detect another's.
    """
    principal = await authorize(request, "provenance:write")
    read_query(request, NoParameters)
    agent, task = path_identifier(request, "agent"), path_identifier(request, "taskId")
    body = await read_json(request, TaskBody, max_bytes=request.app[MAX_BODY_BYTES])
    recorded, first = await request.app[RECORDER].record(principal, agent, task, body)
    return json_answer(shown(recorded), status=201 if first else 200)
