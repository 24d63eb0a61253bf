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
from relay.demo.narration import Narrator, Visitor
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
    except* (StageError, EgressFailure, TimeoutError) as failed:  # the story's own come in a group
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
    visitor = Visitor(stage, narrator)
    literature, waiting = _literature(runs)
    narrator.say(f"The relay is at {stage.relay}, its issuer at {stage.issuer}, the specialists at:")
    for agent, origin in stage.origins.items():
        narrator.say(f"  {agent}: {origin} (TLS, certificate of a local CA)")
    await _record(stage, narrator, visitor, runs)
    await _targets(stage, narrator, visitor)
    if not await _rate_and_see_saved(stage, narrator, visitor, literature):
        return 1
    if not await _outlive_an_outage(stage, narrator, visitor, waiting):
        return 1
    wanting = next(run for run in runs if run.agent == "chemistry")
    return 0 if await _wait_for_the_owner(stage, narrator, visitor, wanting) else 1


def _literature(runs: list[Run]) -> tuple[Run, Run]:
    first, second, *_ = (run for run in runs if run.agent == "literature")
    return first, second


async def _record(stage: Stage, narrator: Narrator, visitor: Visitor, runs: list[Run]) -> None:
    narrator.step("The Workbench records which specialist tasks alice's answers came from")
    shown = True
    for run in runs:
        body = {
            "conversationId": CONVERSATION,
            "answerId": run.answer,
            "role": "specialist",
            "status": "completed",
            "subject": "alice",
        }
        url = f"{stage.relay}/api/provenance/tasks/{run.agent}/{run.task}"
        if shown:
            _require(await visitor.call("PUT", url, who="workbench", body=body), 201)
            shown = False
        else:
            _require(await stage.call("PUT", url, token=stage.tokens["workbench"], body=body), 201)
    narrator.say(f"… and {len(runs) - 1} more in the same way.")


async def _targets(stage: Stage, narrator: Narrator, visitor: Visitor) -> None:
    narrator.step("Alice reads answer a7, to which two specialists contributed, and asks what she may rate")
    _require(await visitor.call("GET", f"{stage.relay}/api/answers/a7/targets", who="alice"), 200)


async def _rate_and_see_saved(stage: Stage, narrator: Narrator, visitor: Visitor, run: Run) -> bool:
    narrator.step(f"She rates the {run.agent} specialist's part; the relay stores it before it answers")
    rating = {"id": str(uuid.uuid4()), "taskId": run.task, "rating": "up", "comment": "Exactly what I needed."}
    stored = await visitor.call(
        "POST", f"{stage.relay}/api/feedback", who="alice", body=rating, headers={"Prefer": "respond-async"}
    )
    _require(stored, 202)
    narrator.step("A moment later it is saved: the specialist acknowledged this very UUID with a 201")
    await _until_saved(stage, rating["id"])
    state = _require(await visitor.call("GET", f"{stage.relay}/api/feedback/{rating['id']}", who="alice"), 200)
    narrator.step("The specialist itself shows the rating on the run that earned it, under its own name for alice")
    token = await stage.token("alice", resource=stage.origins[run.agent])
    kept = _require(
        await visitor.call("GET", f"{stage.origins[run.agent]}/runs/{run.task}", who="alice, for it", token=token), 200
    )
    return _tick(
        narrator,
        bool(state["saved"]) and [r["id"] for r in kept["ratings"]] == [rating["id"]],
        "saved, once, on the right run",
    )


async def _outlive_an_outage(stage: Stage, narrator: Narrator, visitor: Visitor, run: Run) -> bool:
    narrator.step(f"The {run.agent} specialist stops. Alice rates another of its tasks all the same")
    await stage.servers[run.agent].stop()
    rating = {"id": str(uuid.uuid4()), "taskId": run.task, "rating": "down", "comment": "The newest paper is missing."}
    _require(
        await visitor.call(
            "POST", f"{stage.relay}/api/feedback", who="alice", body=rating, headers={"Prefer": "wait=1"}
        ),
        202,
    )
    narrator.say("It waits, visibly; a reload of the page or a restart of the relay would show the same.")
    narrator.step("The specialist starts again; the worker delivers what waited")
    await stage.servers[run.agent].start()
    await stage.servers[run.agent].ready_line()
    began = time.monotonic()
    await _until_saved(stage, rating["id"])
    shown = _require(await visitor.call("GET", f"{stage.relay}/api/feedback/{rating['id']}", who="alice"), 200)
    waited = time.monotonic() - began
    return _tick(
        narrator,
        bool(shown["saved"]) and shown["id"] == rating["id"],
        f"saved under the same UUID, {waited:.1f} s after the specialist came back",
    )


async def _wait_for_the_owner(stage: Stage, narrator: Narrator, visitor: Visitor, run: Run) -> bool:
    narrator.step(f"The {run.agent} specialist wants its owner's own sign-in. It stops; alice rates it, and leaves")
    await stage.servers[run.agent].stop()
    rating = {"id": str(uuid.uuid4()), "taskId": run.task, "rating": "up"}
    url = f"{stage.relay}/api/feedback/{rating['id']}"
    stored = _require(
        await visitor.call(
            "POST", f"{stage.relay}/api/feedback", who="alice", body=rating, headers={"Prefer": "wait=5"}
        ),
        202,
    )
    narrator.say("Without her nobody can act for her there, so it waits for her: no attempt is made, none is used up.")
    narrator.step("The specialist starts again, and alice comes back: she only opens the page")
    await stage.servers[run.agent].start()
    await stage.servers[run.agent].ready_line()
    seen = _require(await visitor.call("GET", url, who="alice"), 200)
    await _until_saved(stage, rating["id"])
    shown = _require(await stage.call("GET", url, token=stage.tokens["alice"]), 200)
    attempt = shown["lastAttempt"]
    narrator.say(f"Her request set off attempt {attempt['number']} ({attempt['cause']}): saved at {shown['savedAt']}.")
    return _tick(
        narrator,
        stored["state"] == "needs_owner" and not seen["saved"] and shown["lastAttempt"]["cause"] == "sign_in",
        "it waited for its owner, and went out under her own sign-in when she came back",
    )


async def _until_saved(stage: Stage, submission: str) -> None:
    while True:
        answer = await stage.call("GET", f"{stage.relay}/api/feedback/{submission}", token=stage.tokens["alice"])
        if _require(answer, 200)["saved"]:
            return
        await asyncio.sleep(0.1)


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
