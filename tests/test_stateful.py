"""Whatever callers, specialists and crashes do, in whatever order: nothing lost, nothing doubled, saved means saved.

Hypothesis drives a whole relay against a small model. A crash cancels every task of the process in the middle of
whatever it does, settles nothing, and leaves the database as it is; then another process is assembled on it.
"""

import asyncio
import json
import shutil
import tempfile
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

import pytest
from aiohttp import web
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlalchemy import text

from registry.model import AgentId
from relay.app import Relay, assembled, build_app
from relay.config import load
from relay.errors import Refusal
from relay.feedback import SUBMITTING
from relay.feedback.model import Offer
from relay.feedback.submitting import Submitting
from relay.identity.model import Principal
from relay.provenance.model import Task
from relay.provenance.store import Recording, Tasks
from tests.support.gateway import write_config
from tests.support.issuer import TestIssuer
from tests.support.specialist import Received, Specialist

TASKS = [f"t{n}" for n in range(6)]
UUIDS = [str(uuid.UUID(int=n)) for n in range(1, 9)]
MODES = ["acknowledge", "fail", "lie", "other id", "keep and fail", "refuse", "hold"]
NEVER = '["0s", "1h", "1h", "1h", "1h", "1h", "1h", "1h", "1h", "1h"]'


class Actor(Specialist):
    """A specialist with moods, which remembers every body it got and every id that it truly acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.mode = "acknowledge"
        self.acknowledged: set[str] = set()
        self.bodies: dict[str, set[bytes]] = {}
        self.released = asyncio.Event()
        self.behave = self._act

    async def _act(self, received: Received) -> web.StreamResponse:
        submission = received.json["id"]
        self.bodies.setdefault(submission, set()).add(received.body)
        mode = self.mode
        if mode == "hold":
            await self.released.wait()
        match mode:
            case "acknowledge" | "hold":
                self.acknowledged.add(submission)
                return web.json_response({"id": submission, "saved": True}, status=201)
            case "lie":
                return web.json_response({"id": submission, "saved": True}, status=200)
            case "other id":
                return web.json_response({"id": str(uuid.uuid4()), "saved": True}, status=201)
            case "refuse":
                return web.json_response({"error": "no"}, status=422)
            case _:
                return web.json_response({"error": "down"}, status=503)


class World(RuleBasedStateMachine):
    """One relay, one specialist, one owner."""

    database_url: ClassVar[Any]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(tempfile.mkdtemp(prefix="relay-stateful-"))
        self.stored: dict[str, Offer] = {}
        self.stack = AsyncExitStack()
        self.tasks: list[asyncio.Task[Any]] = []
        self.runner.run(self._set_up())

    async def _set_up(self) -> None:
        self.issuer = TestIssuer()
        await self.issuer.start()
        self.actor = Actor()
        await self.actor.start()
        self.config = load(
            write_config(
                self.directory,
                type(self).database_url(self.directory),
                self.issuer,
                {"literature": self.actor.origin},
                schedule=NEVER,
                breaker_minimum=100_000,
            ),
            {},
        )
        self.principal = Principal(
            kind="human",
            issuer=self.issuer.url,
            client="workbench",
            subject="alice",
            tenant="acme",
            scopes=frozenset({"feedback:write"}),
            expires_at=2**40,
            token="",
        )
        await self._start()
        owner = await self.relay.owners.ensure(self.principal.owner, seal_subject=False)
        for task in TASKS:
            where = Recording(
                owner=owner.id,
                tenant="acme",
                recorded_by="workbench",
                agent=AgentId("literature"),
                task=task,
            )
            said = Task(conversation="c", answer="a", role="specialist", status="completed", ran_as="client")
            await Tasks(self.relay.db).record(where, said)

    async def _start(self) -> None:
        self.stack = AsyncExitStack()
        self.relay: Relay = await self.stack.enter_async_context(assembled(self.config))
        self.submitting: Submitting = build_app(self.relay)[SUBMITTING]
        parts = (self.relay.settlements, self.relay.acceptance, self.relay.courier)
        self.tasks = [asyncio.get_running_loop().create_task(part.run()) for part in parts]
        await asyncio.sleep(0)

    async def _crash(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.stack.aclose()

    async def _quiet(self) -> None:
        """Until no attempt is under way in this process, unless the specialist holds its answers."""
        while any(self.relay.courier._in_flight.values()):
            if self.actor.mode == "hold" and not self.actor.released.is_set():
                return
            await asyncio.sleep(0.005)

    async def _time_passes(self) -> None:
        async with self.relay.db.write() as connection:
            await connection.execute(
                text(
                    "UPDATE deliveries SET due_at = 0, not_before = 0, owner_attempt_at = NULL WHERE state = 'pending'"
                )
            )
            await connection.execute(text("UPDATE deliveries SET lease_until = 0 WHERE state = 'sending'"))

    async def _submit(self, offer: Offer) -> Any:
        return await self.submitting.submit(
            self.principal, offer, wait=0 if self.actor.mode == "hold" else 5, trace_context=None
        )

    async def _submit_or_refusal(self, offer: Offer) -> Any:
        try:
            return await self._submit(offer)
        except Refusal as refusal:
            return refusal

    async def _rows(self) -> list[dict[str, Any]]:
        async with self.relay.db.read() as connection:
            found = await connection.execute(
                text(
                    "SELECT s.id, s.task, s.rating, s.comment, s.payload, d.state FROM submissions s"
                    " JOIN deliveries d ON d.submission = s.seq"
                )
            )
            return [dict(row) for row in found.mappings()]

    @rule(submission=st.sampled_from(UUIDS), task=st.sampled_from(TASKS), rating=st.sampled_from(["up", "down"]),
          comment=st.sampled_from([None, "Grüße", "x" * 50]))  # fmt: skip
    def submit(self, submission: str, task: str, rating: Any, comment: str | None) -> None:
        """A rating, which may be new, a repeat, a change under the same UUID, or a second one for its task."""
        offer = Offer(id=submission, task=task, rating=rating, comment=comment, agent=None)
        known = self.stored.get(submission)
        rated = any(o.task == task for o in self.stored.values())
        answered = self.runner.run(self._submit_or_refusal(offer))
        if isinstance(answered, Refusal):
            assert answered.code == ("uuid_reused" if known is not None else "already_submitted")
            assert known != offer
            assert known is not None or rated
            return
        assert known in (None, offer)
        assert known is not None or not rated
        self.stored[submission] = offer
        assert (answered.submission.id, answered.submission.rating) == (submission, rating)
        assert (answered.status == 201) == (answered.submission.state == "saved")

    @rule(times=st.integers(2, 8), submission=st.sampled_from(UUIDS), task=st.sampled_from(TASKS))
    def submit_at_once(self, times: int, submission: str, task: str) -> None:
        """The same rating several times at the same moment."""
        offer = Offer(id=submission, task=task, rating="up", comment=None, agent=None)

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(self._submit(offer) for _ in range(times)), return_exceptions=True)

        results = self.runner.run(all_at_once())
        refused = [r.code for r in results if isinstance(r, Refusal)]
        assert not [r for r in results if isinstance(r, BaseException) and not isinstance(r, Refusal)]
        assert len(refused) in (0, times)
        assert len(set(refused)) <= 1
        if not refused:
            self.stored[submission] = offer

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        """The owner presses retry."""
        submission = data.draw(st.sampled_from(sorted(self.stored)))

        async def press() -> Any:
            return await self.submitting.retry(self.principal, submission, wait=0 if self.actor.mode == "hold" else 5)

        answered = self.runner.run(press())
        assert answered.submission.id == submission

    @rule(mode=st.sampled_from(MODES))
    def change_mood(self, mode: str) -> None:
        """The specialist behaves differently from now on; what it held is answered."""
        self.actor.released.set()
        self.runner.run(self._quiet())
        self.actor.released.clear()
        self.actor.mode = mode

    @rule()
    def crash(self) -> None:
        """The process dies where it stands; another takes its place."""
        self.runner.run(self._crash())
        self.runner.run(self._start())

    @rule()
    def work(self) -> None:
        """Time passes, and the worker makes a round."""

        async def round_of_work() -> None:
            await self._time_passes()
            await self.relay.worker.work_once()
            await self.relay.worker.work_once()
            await self._quiet()

        self.runner.run(round_of_work())

    @invariant()
    def nothing_is_lost_doubled_or_made_up(self) -> None:
        """The database holds exactly what was accepted, and saved is only what the specialist acknowledged."""
        rows = self.runner.run(self._rows())
        assert {r["id"] for r in rows} == set(self.stored)
        for row in rows:
            offer = self.stored[row["id"]]
            assert (row["task"], row["rating"], row["comment"]) == (offer.task, offer.rating, offer.comment)
            if row["state"] == "saved":
                assert row["id"] in self.actor.acknowledged
            bodies = self.actor.bodies.get(row["id"], set())
            assert bodies <= {bytes(row["payload"])}
            assert json.loads(bytes(row["payload"]))["id"] == row["id"]

    def teardown(self) -> None:
        """In the end the specialist is well: whatever was not finally refused gets saved."""
        try:
            self.change_mood("acknowledge")
            for _ in range(3):
                self.work()
            rows = self.runner.run(self._rows())
            assert {r["id"] for r in rows} == set(self.stored)
            assert {r["state"] for r in rows} <= {"saved", "rejected", "exhausted"}
        finally:
            self.runner.run(self._close())
            self.runner.close()

    async def _close(self) -> None:
        await self._crash()
        await self.actor.stop()
        await self.issuer.close()
        shutil.rmtree(self.directory, ignore_errors=True)


SETTINGS = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)


@pytest.mark.timeout(300)
def test_promises_hold_on_sqlite(sqlite_template: Path):
    """On the embedded default."""

    def copy(directory: Path) -> str:
        shutil.copy(sqlite_template, directory / "relay.db")
        return f"sqlite:///{directory / 'relay.db'}"

    machine = type("SQLiteWorld", (World,), {"database_url": staticmethod(copy)})
    run_state_machine_as_test(machine, settings=SETTINGS)


@pytest.mark.timeout(300)
def test_promises_hold_on_postgresql(new_postgres_database: Any):
    """On the database of larger deployments."""
    machine = type("PostgreSQLWorld", (World,), {"database_url": staticmethod(lambda _: new_postgres_database())})
    run_state_machine_as_test(machine, settings=SETTINGS)
