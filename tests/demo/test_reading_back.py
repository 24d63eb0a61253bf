"""The loop closed: from a rating to the specialist's own run and back, through real tokens, TLS and a whole relay."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web
from typing_extensions import override

from registry.egress import Egress, Exchange
from registry.protocols.contract import Rated
from relay.app import Relay, assembled, build_app
from relay.client import Evidence, Provenance, RelayClient
from relay.config import load
from relay.delivery.reconcile.store import Checks
from relay.demo import specialist as specialists
from relay.demo.authority import Authority
from relay.demo.issuer import Issuer
from relay.demo.specialist import Trust
from relay.demo.stage import AGENT, CONFIG
from relay.http.server import Runner
from relay.processes import running
from relay.receiver import Ratings
from relay.receiver.store import Row
from tests.conftest import TurnableClock
from tests.feedback.test_events import stream
from tests.support.demo import RELAY, get, post_json, read
from tests.support.reconciling import check

QUESTION = "Who needs an acknowledgement between endpoints?"


class Misfiling(Ratings):
    """Acknowledges every rating, and files it under another run."""

    @override
    async def add(self, owner: str, rated: Rated) -> Row:
        stored = await super().add(owner, replace(rated, task="another-run"))
        return replace(stored, rated=rated)


@dataclass
class World:
    """The demonstration's issuer and specialist, with a relay between them."""

    relay: Relay
    port: int
    origin: str
    issuer: Issuer
    egress: Egress

    async def token(self, user: str = "alice", resource: str | None = None) -> str:
        wanted = {"user": user, **({"resource": resource} if resource else {})}
        return str(read(await post_json(self.egress, f"{self.issuer.url}/demo/token", wanted))["access_token"])

    async def send(self, method: str, url: str, body: bytes | None, token: str) -> Exchange:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return await self.egress.exchange(method, url, headers=headers, body=body, deadline=10)

    async def run(self, user: str) -> dict[str, Any]:
        """A real run of the specialist's, for somebody who asked it."""
        token = await self.token(user, self.origin)
        answer = await post_json(self.egress, f"{self.origin}/runs", {"question": QUESTION}, token=token)
        run: dict[str, Any] = read(answer)
        return run

    async def own_run(self, user: str, task: str) -> dict[str, Any]:
        """The run as the specialist shows it to whoever asked for it."""
        answer = await get(self.egress, f"{self.origin}/runs/{task}", token=await self.token(user, self.origin))
        run: dict[str, Any] = read(answer)
        return run

    async def record(self, run: dict[str, Any], ran_as: Literal["owner", "client"]) -> None:
        provenance = Provenance(
            conversation_id="c1",
            answer_id="a1",
            role="specialist",
            status="completed",
            ran_as=ran_as,
            subject="alice",
            run_id=run["taskId"],
            evidence=[Evidence("tool_call", call["name"]) for call in run["toolCalls"]],
        )
        async with self.client("workbench") as relay:
            await relay.record("literature", run["taskId"], provenance)

    def client(self, user: str) -> RelayClient:
        """The relay as this user's program calls it."""
        return RelayClient(f"http://127.0.0.1:{self.port}", partial(self.token, user))

    async def rate(self, task: str) -> str:
        submission = str(uuid.uuid4())
        async with self.client("alice") as relay:
            rated = await relay.submit(submission, task, "down", comment="The unit is wrong", wait_seconds=10)
        assert rated.saved, rated
        return submission

    async def rated_run(self, user: str = "alice") -> tuple[str, str]:
        """A run of this identity that alice has rated: its task, and the rating's id."""
        run = await self.run(user)
        await self.record(run, "owner" if user == "alice" else "client")
        return run["taskId"], await self.rate(run["taskId"])

    async def show(self, submission: str) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.port}/api/feedback/{submission}"
        shown: dict[str, Any] = read(await get(self.egress, url, token=await self.token()))
        return shown


Start = Callable[..., Any]


@pytest.fixture
def start(
    tmp_path: Path,
    authority: Authority,
    issuer: Issuer,
    issuer_state: Path,
    clock: TurnableClock,
    egress: Egress,
) -> Start:
    """Starts a world in which ratings are kept as the test wants it."""

    @asynccontextmanager
    async def started(ratings: Callable[..., Ratings] = Ratings) -> AsyncIterator[World]:
        async with AsyncExitStack() as stack:
            trust = Trust(issuer=issuer.url)
            origin = await stack.enter_async_context(
                specialists.running(
                    tmp_path / "literature", authority, "literature", trust, clock=clock, ratings=ratings
                )
            )
            agent = AGENT.format(
                id="literature",
                name="Literature",
                origin=origin,
                owner_mode="owner_assertion",
                issuer=issuer.url,
                key_file=issuer_state / "workbench.pem",
            )
            config = CONFIG.format(
                port=0,
                relay=RELAY,
                workbench="http://localhost:8081",
                issuer=issuer.url,
                ca_file=authority.ca_file,
                console_key_file=issuer_state / "console.pem",
            )
            path = tmp_path / "relay.toml"
            path.write_text(config + agent)
            relay = await stack.enter_async_context(assembled(load(path, {}), clock=clock))
            await stack.enter_async_context(running(relay, worker=False))
            runner = Runner(build_app(relay), shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield World(relay, runner.addresses[0][1], origin, issuer, egress)

    return started


@pytest.mark.parametrize("user", ["alice", "workbench"])
async def test_a_rating_is_read_from_the_run_that_earned_it(start: Start, user: str):
    """The specialist's own run shows the rating beside its tool calls; the relay reads it back under the identity that
    ran it, confirms it, and joins it to the run and to what the run used."""  # noqa: D209
    async with start() as world:
        task, submission = await world.rated_run(user)
        run = await world.own_run(user, task)
        assert len(run["toolCalls"]) > 0
        [rating] = run["ratings"]
        assert (rating["id"], rating["rating"], rating["comment"]) == (submission, "down", "The unit is wrong")
        assert (await world.show(submission))["evidence"] == "unchecked"
        assert await check(world.relay) == 1
        shown = await world.show(submission)
        assert (shown["state"], shown["evidence"], shown["runId"]) == ("saved", "confirmed", task)
        confirmation = await Checks(world.relay.db, deadline_seconds=5).confirmation(1)
        assert confirmation is not None
        assert (confirmation.submission, confirmation.run, confirmation.evidence) == (submission, task, "confirmed")
        assert {reference.id for reference in confirmation.references} == {c["name"] for c in run["toolCalls"]}


async def test_a_rating_filed_under_another_run_is_found_out(start: Start):
    """The specialist acknowledges it all the same. Saved stays saved, and everybody can see that it is not there."""
    async with start(Misfiling) as world:
        task, submission = await world.rated_run()
        assert (await world.own_run("alice", task))["ratings"] == []
        await check(world.relay)
        shown = await world.show(submission)
        assert (shown["state"], shown["saved"], shown["evidence"]) == ("saved", True, "mismatch")


async def test_a_resolution_comes_back_to_the_person_who_rated(start: Start):
    """The specialist's operator says "fixed": the person reads it, and hears of it while they listen."""
    async with start() as world:
        task, submission = await world.rated_run()
        await check(world.relay)
        owner = (await world.own_run("alice", task))["owner"]
        body = f'{{"id": "{submission}", "owner": "{owner}", "resolution": "fixed"}}'.encode()
        async with stream(world, await world.token()) as events:
            assert list(await events.block()) == ["id"]
            operator = await world.token("operator", world.origin)
            assert (await world.send("PATCH", f"{world.origin}/api/feedback", body, operator)).status == 200
            await check(world.relay)
            told = (await events.until("saved", submission))["submission"]
        assert told["resolution"] == "fixed"
        assert await world.show(submission) == told
