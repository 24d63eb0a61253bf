"""A specialist of the demonstration: runs with tool calls, over TLS, and ratings of them by roblox-v1.

    python -m relay.demo.specialist --state DIR --authority DIR --port N --agent literature --issuer http://127.0.0.1:N

A run belongs to whoever the token says asked for it, and so does its rating: nobody else can see or rate it. Runs and
ratings are kept in one SQLite file in the state directory.
"""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import click
import msgspec
from aiohttp import web

from registry.egress import Egress, EgressPolicy
from relay.clock import SystemClock, rfc3339
from relay.demo.accounts import CLIENT_ID
from relay.demo.authority import Authority
from relay.demo.callers import MAX_BODY_BYTES, Callers
from relay.demo.files import secret
from relay.demo.process import serve
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


def policy(issuer: str, origin: str) -> IssuerPolicy:
    """Whose tokens a specialist takes: this issuer's, for its own origin."""
    return IssuerPolicy(issuer=issuer, audience=origin, algorithms=("ES256",))


async def _serve(state: Path, authority: Path, *, port: int, agent: str, issuer: str, clients: frozenset[str]) -> None:
    clock = SystemClock()
    db = Database.open(f"sqlite:///{state / 'specialist.db'}")
    async with Egress(EgressPolicy(development=True)) as egress:

        async def build(origin: str) -> web.Application:
            issuers = [policy(issuer, origin)]
            keys = KeySets(issuers, egress, clock)
            callers = Callers(Verifier(issuers, keys, clock), clients=clients, secret=secret(state / "owner-keys"))
            runs = Runs(db, agent=agent, skill=SKILLS[agent])
            app = Specialist(agent, runs=runs, ratings=Ratings(db), callers=callers).application()
            app.on_cleanup.append(lambda _app: keys.close())
            return app

        try:
            await serve(build, name=agent, port=port, tls=Authority.open(authority).server_context())
        finally:
            await db.close()


@click.command()
@click.option("--state", required=True, type=click.Path(file_okay=False, path_type=Path), help="Where runs are kept.")
@click.option("--authority", required=True, type=click.Path(file_okay=False, path_type=Path), help="The CA's files.")
@click.option("--port", default=0, show_default="a free one", help="Port on 127.0.0.1.")
@click.option("--agent", required=True, type=click.Choice(sorted(SKILLS)), help="What it is good at.")
@click.option("--issuer", required=True, help="URL of the authorization server whose tokens it takes.")
@click.option("--client", "clients", multiple=True, default=[CLIENT_ID], show_default=True, help="Who may call.")
def main(state: Path, authority: Path, port: int, agent: str, issuer: str, clients: tuple[str, ...]) -> None:
    """Run a specialist of the demonstration."""
    asyncio.run(_serve(state, authority, port=port, agent=agent, issuer=issuer, clients=frozenset(clients)))


if __name__ == "__main__":
    main()
