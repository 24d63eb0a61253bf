"""A specialist of the demonstration takes a rating of a run from the identity that produced the run, and no other."""

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from registry.credentials import Authorizations, Purpose
from registry.egress import Egress, Exchange
from registry.model import ClientCredentials, OwnerAssertion
from registry.protocols.contract import Acknowledged, Answer, OutboundRequest, Rated
from registry.protocols.roblox_v1 import RobloxV1
from relay.demo import specialist as specialists
from relay.demo.authority import Authority
from relay.demo.issuer import Issuer
from relay.demo.process import listen, url_of
from relay.demo.specialist import Trust
from tests.conftest import TurnableClock
from tests.support.demo import RELAY, get, post_json, process, read
from tests.support.issuer import TestIssuer
from tests.support.token_endpoint import authorization_of

ID = "0b5a1f6e-0f5c-4a53-9a3e-0d8f3f2b7c11"
OTHER_ID = "7d0c3c55-3d6f-4b61-8f27-5f0f5a3f9a02"
QUESTION = "Who needs an acknowledgement between endpoints?"
PROTOCOL = RobloxV1()


class Person:
    """Somebody with tokens for one specialist: their own, and those that the relay gets in their name."""

    def __init__(
        self, user: str, origin: str, issuer: Issuer, key_file: Path, egress: Egress, authorizations: Authorizations
    ) -> None:
        self.user = user
        self.origin = origin
        self._issuer = issuer
        self._key_file = key_file
        self._egress = egress
        self._authorizations = authorizations

    async def token(self, **wanted: object) -> str:
        """A token that was given to the person, without the relay."""
        body = {"user": self.user, "resource": self.origin, **wanted}
        answer = read(await post_json(self._egress, f"{self._issuer.url}/demo/token", body))
        return str(answer["access_token"])

    async def run(self, **question: object) -> dict[str, Any]:
        body = {"question": QUESTION, **question}
        answer = await post_json(self._egress, f"{self.origin}/runs", body, token=await self.token())
        assert answer.status == 201
        run: dict[str, Any] = read(answer)
        return run

    async def show(self, task: str) -> Exchange:
        return await get(self._egress, f"{self.origin}/runs/{task}", token=await self.token())

    async def finish(self, task: str) -> Exchange:
        return await post_json(self._egress, f"{self.origin}/runs/{task}/finish", {}, token=await self.token())

    async def relayed(self, purpose: Purpose, scope: str = "feedback:write") -> str:
        """The Authorization that the relay gets for a submission of this person's (or of the machine client)."""
        kind = ClientCredentials if self.user == "workbench" else OwnerAssertion
        credential = kind(
            issuer=self._issuer.url,
            client_id="workbench",
            token_endpoint=f"{self._issuer.url}/token",
            key_file=str(self._key_file),
            resource=self.origin,
            scope=scope,
        )
        access = await self._authorizations.access_for(credential, subject=self.user, purpose=purpose, deadline=10)
        return await authorization_of(access)

    async def send(self, request: OutboundRequest, authorization: str) -> Exchange:
        headers = {**request.headers, "authorization": authorization}
        return await self._egress.exchange(
            request.method, self.origin + request.path, headers=headers, body=request.body, deadline=10
        )

    async def rate(self, task: str) -> Exchange:
        """What the relay does with this person's rating."""
        request = PROTOCOL.encode(Rated(ID, task, "up", "Well cited"))
        return await self.send(request, await self.relayed(purpose_of(request)))


Make = Callable[[str], Person]
MakeAt = Callable[[str, str], Person]
Running = AbstractAsyncContextManager[str]
Start = Callable[..., Running]


def purpose_of(request: OutboundRequest) -> Purpose:
    body = request.body or b""
    members = json.loads(body)
    return Purpose(members["id"], members["taskId"], hashlib.sha256(body).hexdigest())


def verdict(exchange: Exchange) -> object:
    return PROTOCOL.interpret(Answer(exchange.status, exchange.headers, exchange.body, exchange.complete), ID)


@pytest.fixture
def start(tmp_path: Path, authority: Authority, issuer: Issuer, clock: TurnableClock) -> Start:
    """Starts a specialist whose state is kept under its agent's name."""

    def start(agent: str = "literature", *, port: int = 0, trust: Trust | None = None) -> Running:
        trust = trust or Trust(issuer=issuer.url)
        return specialists.running(tmp_path / agent, authority, agent, trust, port=port, clock=clock)

    return start


@pytest.fixture
async def origin(start: Start) -> AsyncIterator[str]:
    async with start() as origin:
        yield origin


@pytest.fixture
def person_at(issuer: Issuer, issuer_state: Path, egress: Egress, authorizations: Authorizations) -> MakeAt:
    return lambda user, origin: Person(user, origin, issuer, issuer_state / "workbench.pem", egress, authorizations)


@pytest.fixture
def person(person_at: MakeAt, origin: str) -> Make:
    return lambda user: person_at(user, origin)


class TestRuns:
    async def test_tool_calls(self, person: Make) -> None:
        """A run keeps the question, every tool call with what it returned, and the answer."""
        run = await person("alice").run()
        assert run["status"] == "completed"
        assert [call["name"] for call in run["toolCalls"]] == ["search_papers", "open_paper"]
        assert run["toolCalls"][0]["arguments"] == {"query": QUESTION}
        assert run["toolCalls"][0]["result"][0] == "saltzer84"
        assert "End-to-End Arguments" in run["text"]
        assert run["ratings"] == []
        assert read(await person("alice").show(run["taskId"])) == run

    async def test_only_the_owners(self, person: Make) -> None:
        """A run of somebody else looks like one that is not there, to people and to the machine client."""
        task = (await person("alice").run())["taskId"]
        absent = await person("bob").show("literature-unknown")
        for user in ("bob", "workbench"):
            foreign = await person(user).show(task)
            assert (foreign.status, foreign.body) == (404, absent.body)
            assert (await person(user).finish(task)).status == 404

    async def test_finishing(self, person: Make) -> None:
        """A run that was left running has begun, and is finished later, once."""
        alice = person("alice")
        run = await alice.run(finish=False)
        assert (run["status"], run["text"], run["finishedAt"], len(run["toolCalls"])) == ("running", None, None, 1)
        finished = read(await alice.finish(run["taskId"]))
        assert (finished["status"], len(finished["toolCalls"])) == ("completed", 2)
        assert read(await alice.finish(run["taskId"])) == finished

    async def test_chosen_task_id(self, person: Make, egress: Egress, origin: str) -> None:
        """A task id may be chosen, once."""
        assert (await person("alice").run(taskId="task-1"))["taskId"] == "task-1"
        body = {"question": QUESTION, "taskId": "task-1"}
        again = await post_json(egress, f"{origin}/runs", body, token=await person("bob").token())
        assert again.status == 409

    @pytest.mark.parametrize("body", [{}, {"question": ""}, {"question": "q", "owner": "bob"}], ids=str)
    async def test_malformed(self, person: Make, egress: Egress, origin: str, body: object) -> None:
        """A run's owner is never taken from the body, and a question is needed."""
        answer = await post_json(egress, f"{origin}/runs", body, token=await person("alice").token())
        assert (answer.status, read(answer)["code"]) == (422, "invalid_field")


class TestRating:
    async def test_attached_to_the_run(self, person: Make) -> None:
        """A rating that the relay sends in the owner's name is acknowledged and stands beside the run."""
        alice = person("alice")
        task = (await alice.run())["taskId"]

        assert verdict(await alice.rate(task)) == Acknowledged()

        (rating,) = read(await alice.show(task))["ratings"]
        assert {name: rating[name] for name in ("id", "rating", "comment")} == {
            "id": ID,
            "rating": "up",
            "comment": "Well cited",
        }

    async def test_wrong_owner(self, person: Make) -> None:
        """A good token of another owner rates nothing: the run is not theirs."""
        alice, bob = person("alice"), person("bob")
        task = (await alice.run())["taskId"]

        refused = await bob.rate(task)

        assert (refused.status, read(refused)["code"]) == (404, "task_not_found")
        assert read(await alice.show(task))["ratings"] == []

    async def test_machine_for_a_person(self, person: Make) -> None:
        """The machine client's own token does not rate a person's run, nor a person's the machine's."""
        alice, machine = person("alice"), person("workbench")
        assert (await machine.rate((await alice.run())["taskId"])).status == 404
        assert (await alice.rate((await machine.run())["taskId"])).status == 404

    async def test_machine_for_itself(self, person: Make) -> None:
        """A run that the machine client started alone is rated with the machine client's token."""
        machine = person("workbench")
        task = (await machine.run())["taskId"]
        assert verdict(await machine.rate(task)) == Acknowledged()
        assert len(read(await machine.show(task))["ratings"]) == 1

    async def test_running(self, person: Make) -> None:
        """A run is rated when it has finished."""
        alice = person("alice")
        task = (await alice.run(finish=False))["taskId"]
        early = await alice.rate(task)
        assert (early.status, read(early)["code"]) == (409, "task_not_finished")
        await alice.finish(task)
        assert verdict(await alice.rate(task)) == Acknowledged()

    async def test_read_back(self, person: Make) -> None:
        """The token that sent a rating can read it back."""
        alice = person("alice")
        rated = Rated(ID, (await alice.run())["taskId"], "down", None)
        request = PROTOCOL.encode(rated)
        authorization = await alice.relayed(purpose_of(request))
        await alice.send(request, authorization)
        listed = await alice.send(PROTOCOL.read_back(), authorization)
        assert PROTOCOL.find(Answer(listed.status, listed.headers, listed.body), rated) == "same"

    async def test_operator(self, person: Make, egress: Egress, origin: str) -> None:
        """An operator sees and resolves ratings by the owner's opaque key; a person does neither."""
        alice = person("alice")
        task = (await alice.run())["taskId"]
        await alice.rate(task)
        operator = await person("operator").token()

        (row,) = read(await get(egress, f"{origin}/api/analytics?scope=all", token=operator))
        assert "alice" not in json.dumps(row)
        body = json.dumps({"id": ID, "owner": row["owner"], "resolution": "fixed"}).encode()
        headers = {"content-type": "application/json", "authorization": f"Bearer {operator}"}
        resolved = await egress.exchange("PATCH", f"{origin}/api/feedback", headers=headers, body=body, deadline=10)
        assert read(resolved)["resolution"] == "fixed"

        headers["authorization"] = f"Bearer {await alice.token()}"
        refused = await egress.exchange("PATCH", f"{origin}/api/feedback", headers=headers, body=body, deadline=10)
        assert refused.status == 403
        assert (await get(egress, f"{origin}/api/analytics?scope=all", token=await alice.token())).status == 403


class TestBoundTokens:
    @pytest.mark.parametrize(
        "change",
        [
            {"submission_id": OTHER_ID},
            {"task": "another"},
            {"payload_sha256": hashlib.sha256(b"{}").hexdigest()},
        ],
        ids=str,
    )
    async def test_another_submission(self, person: Make, change: dict[str, str]) -> None:
        """A token that was made for another submission, task or body is refused, and nothing is stored."""
        alice = person("alice")
        task = (await alice.run())["taskId"]
        request = PROTOCOL.encode(Rated(ID, task, "up", None))
        purpose = purpose_of(request)
        bound = {
            "submission_id": purpose.submission_id,
            "task": purpose.task,
            "payload_sha256": purpose.payload_sha256,
            **change,
        }

        refused = await alice.send(request, await alice.relayed(Purpose(**bound)))

        assert (refused.status, read(refused)["code"]) == (403, "insufficient_scope")
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert read(await alice.show(task))["ratings"] == []

    @pytest.mark.parametrize("body", [b'{"rating":"up"}', b"[]", b"no json", b'{"id":"a","id":"b"}'])
    async def test_other_bodies(self, person: Make, body: bytes) -> None:
        """Not even a body with the right digest passes for a submission that it is not."""
        alice = person("alice")
        purpose = Purpose(ID, "task-1", hashlib.sha256(body).hexdigest())
        request = PROTOCOL.request_for(ID, body)
        assert (await alice.send(request, await alice.relayed(purpose))).status == 403

    async def test_other_use(self, person: Make, egress: Egress, origin: str) -> None:
        """A token for one submission is good for no run and no resolution, whatever its scopes."""
        alice, operator = person("alice"), person("operator")
        task = (await alice.run())["taskId"]
        reading = await alice.relayed(Purpose(ID, task, "ab" * 32), "runs:read")
        assert (await get(egress, f"{origin}/runs/{task}", token=reading.removeprefix("Bearer "))).status == 403

        body = json.dumps({"id": ID, "owner": "own_x", "resolution": "fixed"}).encode()
        purpose = Purpose(ID, task, hashlib.sha256(body).hexdigest())
        headers = {
            "content-type": "application/json",
            "authorization": await operator.relayed(purpose, "operator:write"),
        }
        resolved = await egress.exchange("PATCH", f"{origin}/api/feedback", headers=headers, body=body, deadline=10)
        assert resolved.status == 403

    async def test_own_token(self, person: Make) -> None:
        """The owner's own token is bound to nothing, and rates the owner's run."""
        alice = person("alice")
        request = PROTOCOL.encode(Rated(ID, (await alice.run())["taskId"], "up", None))
        assert verdict(await alice.send(request, f"Bearer {await alice.token()}")) == Acknowledged()


class TestTokens:
    async def statuses(self, egress: Egress, origin: str, token: str | None) -> tuple[int, int, int]:
        """How listing, rating and running answer this token."""
        body = {"id": ID, "taskId": "task-1", "rating": "up"}
        return (
            (await get(egress, f"{origin}/api/feedback", token=token)).status,
            (await post_json(egress, f"{origin}/api/feedback", body, token=token)).status,
            (await post_json(egress, f"{origin}/runs", {"question": "q"}, token=token)).status,
        )

    async def test_none(self, egress: Egress, origin: str) -> None:
        """Without a token there is a challenge."""
        assert await self.statuses(egress, origin, None) == (401, 401, 401)
        assert (await get(egress, f"{origin}/api/feedback")).headers["www-authenticate"].startswith("Bearer")

    async def test_other_audience(self, person: Make, egress: Egress, origin: str) -> None:
        """A token for another specialist, or for the relay, is good for nothing here."""
        for resource in ("https://localhost:1", RELAY):
            token = await person("alice").token(resource=resource)
            assert await self.statuses(egress, origin, token) == (401, 401, 401)

    async def test_expired(self, person: Make, egress: Egress, origin: str, clock: TurnableClock) -> None:
        """A token that has expired is good for nothing."""
        token = await person("alice").token(expires_in=30)
        clock.turn(30)
        assert await self.statuses(egress, origin, token) == (401, 401, 401)

    async def test_other_key(self, issuer: Issuer, egress: Egress, origin: str, clock: TurnableClock) -> None:
        """A token that names the issuer and its key, but was signed by somebody else, is good for nothing."""
        (published,) = read(await get(egress, f"{issuer.url}/jwks.json"))["keys"]
        token = TestIssuer(now=clock.unix).mint(
            iss=issuer.url, aud=origin, scope="feedback:write runs:write", header={"kid": published["kid"]}
        )
        assert await self.statuses(egress, origin, token) == (401, 401, 401)

    async def test_other_issuer(self, egress: Egress, origin: str, clock: TurnableClock) -> None:
        """An issuer that the specialist was not told of vouches for nobody."""
        async with TestIssuer(now=clock.unix) as other:
            token = other.mint(aud=origin, scope="feedback:write runs:write")
            assert await self.statuses(egress, origin, token) == (401, 401, 401)

    async def test_missing_scope(self, person: Make, egress: Egress, origin: str) -> None:
        """A token is good for what its scopes say."""
        alice = person("alice")
        assert await self.statuses(egress, origin, await alice.token(scope="feedback:read")) == (200, 403, 403)
        assert await self.statuses(egress, origin, await alice.token(scope="runs:write")) == (403, 403, 201)

    async def test_other_client(self, start: Start, issuer: Issuer, person_at: MakeAt, egress: Egress) -> None:
        """A client that may not call is refused, whoever stands behind it."""
        async with start(trust=Trust(issuer=issuer.url, clients=frozenset({"another"}))) as origin:
            token = await person_at("alice", origin).token()
            assert await self.statuses(egress, origin, token) == (403, 403, 403)

    async def test_keys_out_of_reach(self, start: Start, egress: Egress, clock: TurnableClock) -> None:
        """While the issuer's keys cannot be had the answer is to come back, not that the token is bad."""
        with listen(0) as listener:
            gone = url_of(listener, secure=False)
        async with start(trust=Trust(issuer=gone)) as origin:
            token = TestIssuer(now=clock.unix).mint(iss=gone, aud=origin)
            assert await self.statuses(egress, origin, token) == (503, 503, 503)


class TestState:
    async def test_restart(self, start: Start, person_at: MakeAt) -> None:
        """After a restart the runs, their ratings and their owners are the same, and a retry is acknowledged again."""
        async with start() as origin:
            alice = person_at("alice", origin)
            task = (await alice.run())["taskId"]
            await alice.rate(task)
            before = read(await alice.show(task))
        async with start(port=int(origin.rpartition(":")[2])):
            assert read(await alice.show(task)) == before
            assert verdict(await alice.rate(task)) == Acknowledged()
            assert read(await alice.show(task)) == before

    async def test_owner_keys(self, start: Start, person: Make, person_at: MakeAt) -> None:
        """An owner has one opaque name at a specialist, and another at the next."""
        first, second = await person("alice").run(), await person("alice").run()
        async with start("chemistry") as origin:
            third = await person_at("alice", origin).run()
        assert first["owner"] == second["owner"] != third["owner"]
        assert "alice" not in first["owner"]

    async def test_processes(self, tmp_path: Path, authority: Authority, egress: Egress) -> None:
        """As processes an issuer and a specialist work together, end with 0, and the specialist keeps its runs."""
        shown = []
        issuer_options = ("--state", str(tmp_path / "issuer"), "--relay", RELAY)
        async with process("issuer", *issuer_options) as (_, issuer):
            port = 0
            for question in ("C8H10N4O2", None):
                async with process(
                    "specialist",
                    *("--state", str(tmp_path / "chemistry"), "--authority", str(authority.ca_file.parent)),
                    *("--agent", "chemistry", "--issuer", issuer, "--port", str(port)),
                ) as (running, origin):
                    port = int(origin.rpartition(":")[2])
                    wanted = {"user": "alice", "resource": origin}
                    token = read(await post_json(egress, f"{issuer}/demo/token", wanted))["access_token"]
                    if question:
                        body = {"question": question, "taskId": "task-1"}
                        await post_json(egress, f"{origin}/runs", body, token=token)
                    shown.append(read(await get(egress, f"{origin}/runs/task-1", token=token)))
                    running.terminate()
                    assert await running.wait() == 0
        assert shown[0] == shown[1]
        assert shown[0]["text"] == "C8H10N4O2 has a molar mass of 194.194 g/mol."
