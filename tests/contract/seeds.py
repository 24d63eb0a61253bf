"""What stands in the relay before its contract is tried: otherwise everything is a 404 and nothing is shown."""

import itertools
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from tests.support.gateway import Gateway
from tests.support.specialist import Received, Specialist, acknowledge, answering

OPEN_TASKS = 60

TASKS = [f"open-{n}" for n in range(OPEN_TASKS)]
ANSWERS = ["answer-1", "answer-2"]
CONVERSATIONS = ["conversation-1"]


@dataclass
class Seeded:
    """A running relay, the ids that mean something in it, and a token of the caller whose they are."""

    gateway: Gateway
    tasks: list[str]
    submissions: list[str]
    owner: str
    jobs: list[str]

    @property
    def token(self) -> str:
        """Of the Workbench itself, as a machine: it may record, rate and read what it owns."""
        return self.gateway.machine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"


async def seed(gateway: Gateway, specialists: Mapping[str, Specialist]) -> Seeded:
    """Record tasks of the machine caller and rate some, to ends of every kind."""
    turns = itertools.cycle([acknowledge, acknowledge, answering(503), answering(422)])

    async def in_turns(received: Received) -> web.StreamResponse:
        return await next(turns)(received)

    for n, task in enumerate(TASKS):
        await _record(gateway, task, answerId=ANSWERS[n % 2])
    await _record(gateway, "ambiguous")
    await _record(gateway, "ambiguous", agent="chemistry")
    await _record(gateway, "coordinator", role="coordinator")
    await _record(gateway, "running", status="running")
    submissions = []
    for behaviour in (acknowledge, answering(503), answering(422)):
        specialists["literature"].behave = behaviour
        submission, task = str(uuid.UUID(int=len(submissions), version=4)), f"rated-{len(submissions)}"
        await _record(gateway, task)
        rated = await gateway.rate(task, id=submission, token=gateway.machine)
        assert rated.status in {201, 202}, rated.body
        submissions.append(submission)
    specialists["literature"].behave = in_turns
    tasks = [*TASKS, "ambiguous", "coordinator", "running", "rated-0"]
    [owner] = await gateway.rows("SELECT owner_key FROM owners")
    body = {"kind": "abandon", "filter": {"state": "held"}, "why": "none is"}
    job = await gateway.call("POST", "/api/operator/jobs", body, token=gateway.token("olga", "operator:write"))
    return Seeded(gateway, tasks, submissions, owner["owner_key"], [job.json["id"]])


async def _record(gateway: Gateway, task: str, **fields: object) -> None:
    words = {"conversationId": CONVERSATIONS[0], "answerId": ANSWERS[0], **fields}
    recorded = await gateway.record(task, sub=None, **words)
    assert recorded.status == 201, recorded.body
