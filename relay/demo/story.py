"""``relay demo``: the main job, for real, told step by step."""

import asyncio
import json
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from registry.egress import EgressFailure, Exchange
from relay.client import ClientError, Provenance
from relay.demo.cast import Caller, on_stage
from relay.demo.narration import Narrator
from relay.demo.stage import Stage, StageError, set_up

DEADLINE_SECONDS = 30.0
CONVERSATION = "c-demo"

QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "literature": (
        "Which papers explain exactly once delivery with retry?",
        "What is known about consensus despite a crash?",
        "Where are idempotent messages described?",
    ),
    "chemistry": ("What is the molar mass of C8H10N4O2?", "How heavy is H2SO4?"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A run at a specialist, and the answer that it went into."""

    agent: str
    task: str
    answer: str


def main(*, once: bool, json: bool, deadline_seconds: float = DEADLINE_SECONDS) -> int:
    """Run the demonstration; 0 when the last rating ended saved."""
    return asyncio.run(_main(once=once, as_json=json, deadline_seconds=deadline_seconds))


async def _main(*, once: bool, as_json: bool, deadline_seconds: float) -> int:
    directory = Path(tempfile.mkdtemp(prefix="feedback-relay-demo-"))
    narrator = Narrator()
    stop = asyncio.Event()
    code = 1
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with set_up(directory) as stage:
            runs = await _prepare(stage)
            if as_json:
                click.echo(_as_line(_summary(stage, runs)))
            code = await _bounded(_tell(stage, narrator, runs), stop, deadline_seconds)
            if not once and code == 0:
                _invite(stage, narrator, runs)
                await stop.wait()
    except* (StageError, EgressFailure, ClientError, TimeoutError) as failed:  # the story's own come in a group
        for error in failed.exceptions:
            narrator.bad(str(error) or "the demonstration took too long")
    if code == 0 or stop.is_set():
        shutil.rmtree(directory, ignore_errors=True)
    else:
        narrator.say(f"The servers' logs are in {directory}")
    return code


def _as_line(summary: dict[str, Any]) -> str:
    return json.dumps(summary)


async def _bounded(story: Coroutine[Any, Any, int], stop: asyncio.Event, seconds: float) -> int:
    """Tell the story to its end, unless somebody stops it or it takes too long."""
    async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
        telling = group.create_task(story)
        stopping = group.create_task(stop.wait())
        done, _ = await asyncio.wait({telling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        telling.cancel()
    return telling.result() if telling in done else 1


async def _prepare(stage: Stage) -> list[Run]:
    """Real runs at both specialists, by alice; the first of each went into one answer."""
    runs = []
    for agent, questions in QUESTIONS.items():
        token = await stage.token("alice", resource=stage.origins[agent])
        for number, question in enumerate(questions):
            answer = await stage.call(
                "POST", f"{stage.origins[agent]}/runs", token=token, body={"question": question, "finish": True}
            )
            task = str(_require(answer, 201)["taskId"])
            runs.append(Run(agent, task, "a7" if number == 0 else f"a7-{agent}-{number}"))
    return runs


def _summary(stage: Stage, runs: list[Run]) -> dict[str, Any]:
    return {
        "relay": stage.relay,
        "console": stage.console,
        "workbench": stage.workbench,
        "issuer": stage.issuer,
        "ca_file": str(stage.ca_file),
        "tokens": stage.tokens,
        "agents": {
            agent: {
                "origin": origin,
                "tasks": {
                    run.task: {"owner": "alice", "conversationId": CONVERSATION, "answerId": run.answer}
                    for run in runs
                    if run.agent == agent
                },
            }
            for agent, origin in stage.origins.items()
        },
    }


async def _tell(stage: Stage, narrator: Narrator, runs: list[Run]) -> int:
    literature, waiting = _literature(runs)
    narrator.say(f"The relay is at {stage.relay}, its issuer at {stage.issuer}, the specialists at:")
    for agent, origin in stage.origins.items():
        narrator.say(f"  {agent}: {origin} (TLS, certificate of a local CA)")
    async with on_stage(stage, narrator) as cast:
        await _record(cast.workbench, narrator, runs)
        await _targets(cast.alice, narrator)
        if not await _rate_and_see_saved(stage, narrator, cast.alice, literature):
            return 1
        if not await _outlive_an_outage(stage, narrator, cast.alice, waiting):
            return 1
        wanting = next(run for run in runs if run.agent == "chemistry")
        return 0 if await _wait_for_the_owner(stage, narrator, cast.alice, wanting) else 1


def _literature(runs: list[Run]) -> tuple[Run, Run]:
    first, second, *_ = (run for run in runs if run.agent == "literature")
    return first, second


async def _record(workbench: Caller, narrator: Narrator, runs: list[Run]) -> None:
    narrator.step("The Workbench records which specialist tasks alice's answers came from")
    for number, run in enumerate(runs):
        provenance = Provenance(
            conversation_id=CONVERSATION, answer_id=run.answer, role="specialist", status="completed", subject="alice"
        )
        client = workbench.quiet if number else workbench.aloud
        await client.record(run.agent, run.task, provenance)
    narrator.say(f"… and {len(runs) - 1} more in the same way.")


async def _targets(alice: Caller, narrator: Narrator) -> None:
    narrator.step("Alice reads answer a7, to which two specialists contributed, and asks what she may rate")
    await alice.aloud.answer_targets("a7")


async def _rate_and_see_saved(stage: Stage, narrator: Narrator, alice: Caller, run: Run) -> bool:
    narrator.step(f"She rates the {run.agent} specialist's part; the relay stores it before it answers")
    rating = uuid.uuid4()
    await alice.aloud.submit(rating, run.task, "up", comment="Exactly what I needed.", wait_seconds=0)
    narrator.step("A moment later it is saved: the specialist acknowledged this very UUID with a 201")
    await alice.quiet.wait_until_saved(rating, seconds=DEADLINE_SECONDS)
    state = await alice.aloud.show(rating)
    narrator.step("The specialist itself shows the rating on the run that earned it, under its own name for alice")
    token = await stage.token("alice", resource=stage.origins[run.agent])
    url = f"{stage.origins[run.agent]}/runs/{run.task}"
    answer = await stage.call("GET", url, token=token)
    narrator.exchange("GET", url, "alice, for it", None, answer, {})
    kept = _require(answer, 200)
    return _tick(
        narrator,
        state.saved and [r["id"] for r in kept["ratings"]] == [str(rating)],
        "saved, once, on the right run",
    )


async def _outlive_an_outage(stage: Stage, narrator: Narrator, alice: Caller, run: Run) -> bool:
    narrator.step(f"The {run.agent} specialist stops. Alice rates another of its tasks all the same")
    await stage.servers[run.agent].stop()
    rating = uuid.uuid4()
    await alice.aloud.submit(rating, run.task, "down", comment="The newest paper is missing.", wait_seconds=1)
    narrator.say("It waits, visibly; a reload of the page or a restart of the relay would show the same.")
    narrator.step("The specialist starts again; the worker delivers what waited")
    await stage.servers[run.agent].start()
    await stage.servers[run.agent].ready_line()
    began = time.monotonic()
    await alice.quiet.wait_until_saved(rating, seconds=DEADLINE_SECONDS)
    shown = await alice.aloud.show(rating)
    waited = time.monotonic() - began
    return _tick(
        narrator,
        shown.saved and shown.id == str(rating),
        f"saved under the same UUID, {waited:.1f} s after the specialist came back",
    )


async def _wait_for_the_owner(stage: Stage, narrator: Narrator, alice: Caller, run: Run) -> bool:
    narrator.step(f"The {run.agent} specialist wants its owner's own sign-in. It stops; alice rates it, and leaves")
    await stage.servers[run.agent].stop()
    rating = uuid.uuid4()
    stored = await alice.aloud.submit(rating, run.task, "up", wait_seconds=5)
    narrator.say("Without her nobody can act for her there, so it waits for her: no attempt is made, none is used up.")
    narrator.step("The specialist starts again, and alice comes back: she only opens the page")
    await stage.servers[run.agent].start()
    await stage.servers[run.agent].ready_line()
    seen = await alice.aloud.show(rating)
    shown = await alice.quiet.wait_until_saved(rating, seconds=DEADLINE_SECONDS)
    attempt = shown.last_attempt
    if attempt is None:
        raise StageError("saved without an attempt")
    narrator.say(f"Her request set off attempt {attempt.number} ({attempt.cause}): saved at {shown.saved_at}.")
    return _tick(
        narrator,
        stored.state == "needs_owner" and not seen.saved and attempt.cause == "sign_in",
        "it waited for its owner, and went out under her own sign-in when she came back",
    )


def _tick(narrator: Narrator, holds: bool, text: str) -> bool:  # noqa: FBT001 - what is ticked
    (narrator.good if holds else narrator.bad)(text if holds else f"not so: {text}")
    return holds


def _require(answer: Exchange, status: int) -> dict[str, Any]:
    if answer.status != status:
        raise StageError(f"expected {status}, got {answer.status}: {answer.body.decode('utf-8', 'replace')}")
    decoded: dict[str, Any] = json.loads(answer.body)
    return decoded


def _invite(stage: Stage, narrator: Narrator, runs: list[Run]) -> None:
    spare = runs[-1]
    narrator.step("Your turn. Everything stays up until you press Ctrl-C")
    narrator.say(f"Open the Workbench: {stage.workbench} (you may sign in as Alice or as Bob)")
    narrator.say(f"The operators' console is at {stage.console}: sign in as Operator.")
    narrator.say("The same from a terminal, and then `relay operators --help`:")
    narrator.say(f"relay operators --relay {stage.relay} login --issuer {stage.issuer} --client-id relay-cli")
    narrator.curl(
        f"""
export RELAY={stage.relay}
export ALICE={stage.tokens["alice"]}

curl -s $RELAY/api/answers/a7/targets -H "Authorization: Bearer $ALICE"

curl -s $RELAY/api/feedback -H "Authorization: Bearer $ALICE" -H "Content-Type: application/json" \\
  -d '{{"id": "{uuid.uuid4()}", "taskId": "{spare.task}", "rating": "up", "comment": "Thank you"}}'

curl -s $RELAY/api/feedback -H "Authorization: Bearer $ALICE"
"""
    )
