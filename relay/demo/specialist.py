"""A specialist of the demonstration: runs with tool calls, over TLS, and ratings of them by roblox-v1.

    python -m relay.demo.specialist --state DIR --authority DIR --port N --agent literature --issuer http://127.0.0.1:N

A run belongs to whoever the token says asked for it, and so does its rating: nobody else can see or rate it. Runs and
ratings are kept in one SQLite file in the state directory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
from aiohttp import web

from registry.egress import Egress, EgressPolicy
from relay.clock import Clock, SystemClock, rfc3339
from relay.demo.accounts import CLIENT_ID
from relay.demo.authority import Authority
from relay.demo.callers import MAX_BODY_BYTES, Callers
from relay.demo.files import secret
from relay.demo.process import listen, serving, stay, url_of
from relay.demo.proofs import Proofs
from relay.demo.runs import Run, Runs
from relay.demo.skills import SKILLS
from relay.errors import Refusal
from relay.http import problems
from relay.http.bodies import read_json
from relay.identity.keys import KeySets
from relay.identity.model import IssuerPolicy
from relay.identity.tokens import Verifier
from relay.receiver import PREFIX, Hooks, Ratings, TaskStatus, receiver_app
from relay.storage.engine import Database

_SYSTEM_CLOCK = SystemClock()


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The body of ``POST /runs``. With ``finish`` false the run stays running until it is finished by another call."""

    question: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    task_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] | None = None
    finish: bool = True


class Specialist:
    """An agent's server: its runs, their ratings, and who may see which."""

    def __init__(self, agent: str, *, runs: Runs, ratings: Ratings, callers: Callers) -> None:
        self._agent = agent
        self._runs = runs
        self._ratings = ratings
        self._callers = callers

    def application(self) -> web.Application:
        app = web.Application(middlewares=[problems.middleware])
        app.add_routes(
            [
                web.post("/runs", self._start),
                web.get("/runs/{task}", self._show, allow_head=False),
                web.post("/runs/{task}/finish", self._finish),
            ]
        )
        hooks = Hooks(identify=self._callers.rating, task=self._task)
        app.add_subapp(PREFIX, receiver_app(self._ratings, hooks))
        app.on_startup.append(self._prepare)
        return app

    async def _prepare(self, _app: web.Application) -> None:
        await self._runs.prepare()

    async def _task(self, owner: str, task: str) -> TaskStatus | None:
        run = await self._runs.find(owner, task)
        if run is None:
            return None
        return "finished" if run.status == "completed" else "running"

    async def _start(self, request: web.Request) -> web.Response:
        owner = await self._callers.running(request, "runs:write")
        asked = await read_json(request, Question, max_bytes=MAX_BODY_BYTES)
        run = await self._runs.start(owner, asked.question, task=asked.task_id, finish=asked.finish)
        if run is None:
            raise Refusal("provenance_conflict", "This task id is taken. Leave it out to have one made.")
        return web.json_response(await self._shown(run), status=201)

    async def _show(self, request: web.Request) -> web.Response:
        owner = await self._callers.running(request, "runs:read")
        return await self._answer(await self._runs.find(owner, request.match_info["task"]))

    async def _finish(self, request: web.Request) -> web.Response:
        owner = await self._callers.running(request, "runs:write")
        return await self._answer(await self._runs.finish(owner, request.match_info["task"]))

    async def _answer(self, run: Run | None) -> web.Response:
        if run is None:
            raise Refusal("task_not_found", "No run of this caller has this id.")
        return web.json_response(await self._shown(run))

    async def _shown(self, run: Run) -> dict[str, Any]:
        ratings = await self._ratings.of_task(run.owner, run.task)
        return {
            "taskId": run.task,
            "agent": self._agent,
            "owner": run.owner,
            "status": run.status,
            "question": run.question,
            "toolCalls": [{"name": c.name, "arguments": c.arguments, "result": c.result} for c in run.calls],
            "text": run.text,
            "startedAt": rfc3339(run.started_at),
            "finishedAt": None if run.finished_at is None else rfc3339(run.finished_at),
            "ratings": [
                {
                    "id": row.rated.id,
                    "rating": row.rated.rating,
                    "comment": row.rated.comment,
                    "createdAt": rfc3339(row.created_at),
                }
                for row in ratings
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose tokens a specialist takes: of this issuer, for these clients, and always for its own origin alone."""

    issuer: str
    clients: frozenset[str] = frozenset({CLIENT_ID})


@asynccontextmanager
async def running(
    state: Path,
    authority: Authority,
    agent: str,
    trust: Trust,
    *,
    port: int = 0,
    clock: Clock = _SYSTEM_CLOCK,
    ratings: Callable[[Database], Ratings] = Ratings,
) -> AsyncIterator[str]:
    """The specialist of ``state``, answering on loopback within the block; gives its origin.

    ``ratings`` makes what keeps the ratings.
    """
    async with AsyncExitStack() as stack:
        db = Database.open(f"sqlite:///{state / 'specialist.db'}")
        stack.push_async_callback(db.close)
        egress = await stack.enter_async_context(Egress(EgressPolicy(development=True)))
        listener = stack.enter_context(listen(port))
        origin = url_of(listener, secure=True)
        issuers = [IssuerPolicy(issuer=trust.issuer, audience=origin, algorithms=("ES256",))]
        keys = KeySets(issuers, egress, clock)
        stack.push_async_callback(keys.close)
        callers = Callers(
            Verifier(issuers, keys, clock),
            Proofs(clock),
            origin=origin,
            clients=trust.clients,
            secret=secret(state / "owner-keys"),
        )
        runs = Runs(db, agent=agent, skill=SKILLS[agent])
        specialist = Specialist(agent, runs=runs, ratings=ratings(db), callers=callers)
        await stack.enter_async_context(serving(specialist.application(), listener, tls=authority.server_context()))
        yield origin


async def _run(state: Path, authority: Path, agent: str, trust: Trust, port: int) -> None:
    async with running(state, Authority.open(authority), agent, trust, port=port) as origin:
        await stay(agent, origin)


@click.command()
@click.option("--state", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where runs are kept.")
@click.option("--authority", required=True, type=click.Path(file_okay=False, path_type=Path), help="The CA's files.")
@click.option("--port", default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option("--agent", required=True, type=click.Choice(sorted(SKILLS)), help="What it is good at.")
@click.option("--issuer", required=True, help="URL of the authorization server whose tokens it takes.")
@click.option("--client", "clients", multiple=True, default=[CLIENT_ID], show_default=True, help="Who may call.")
def main(state: Path, authority: Path, port: int, agent: str, issuer: str, clients: tuple[str, ...]) -> None:
    """Run a specialist of the demonstration."""
    asyncio.run(_run(state, authority, agent, Trust(issuer=issuer, clients=frozenset(clients)), port))


if __name__ == "__main__":
    main()
