"""The running relay against its own OpenAPI document, tried by Schemathesis over real sockets."""

import asyncio
import json
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from relay.web.module import load
from tests.contract.seeds import ANSWERS, CONVERSATIONS, Seeded
from tests.support.contract import OPERATIONS

SECONDS = 150
"""After this a run is given up; on two idle cores it takes a fifth of it."""

SKIPPED = {"feedback_events"}
"""A stream that ends with its token is for tests of its own."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
)


def configuration(seeded: Seeded, token: str, skipped: AbstractSet[str], examples: int) -> str:
    """Known ids are mixed into what is made up, so that the run reaches behind the 404s."""
    # Decisions about versions mostly meet versions that are not there: what a run reaches is looked at instead.
    warnings = ["missing_auth", "missing_deserializer", "unsupported_regex"]
    if token == seeded.token:
        warnings.append("missing_test_data")
    return f"""
workers = 1
continue-on-failure = true
request-timeout = 20
warnings = {{ fail-on = {json.dumps(warnings)} }}
[cache]
enabled = false
[auth.openapi]
bearer = {{ bearer = "{token}" }}
[generation]
max-examples = {examples}
deterministic = true
no-shrink = true
[phases.coverage]
unexpected-methods = ["DELETE", "TRACE"]
[phases.stateful]
max-steps = 4
generation.max-examples = 8
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 409, 413, 414, 415, 417, 422, 431]
[dictionaries]
agents = {{ values = ["literature", "chemistry"] }}
tasks = {{ values = {json.dumps(seeded.tasks)} }}
owners = {{ values = {json.dumps([seeded.owner])} }}
submissions = {{ values = {json.dumps(seeded.submissions)} }}
jobs = {{ values = {json.dumps(seeded.jobs)} }}
answers = {{ values = {json.dumps(ANSWERS)} }}
conversations = {{ values = {json.dumps(CONVERSATIONS)} }}
versions = {{ values = ["1"] }}
digests = {{ values = ["{load().script.version}"] }}
preferences = {{ values = ["respond-async", "wait=0", "wait=1"] }}
[parameters]
"path.agent" = {{ dictionary = "agents", probability = 0.8 }}
"path.version" = {{ dictionary = "versions", probability = 0.9 }}
"path.digest" = {{ dictionary = "digests", probability = 0.5 }}
"path.taskId" = {{ dictionary = "tasks", probability = 0.5 }}
"path.owner" = {{ dictionary = "owners", probability = 0.9 }}
"path.id" = {{ dictionary = "submissions", probability = 0.8 }}
"path.job" = {{ dictionary = "jobs", probability = 0.8 }}
"path.answerId" = {{ dictionary = "answers", probability = 0.8 }}
"path.conversationId" = {{ dictionary = "conversations", probability = 0.8 }}
"header.Prefer" = {{ dictionary = "preferences", probability = 0.9 }}
"body.taskId" = {{ dictionary = "tasks", probability = 0.8 }}
"body.agent" = {{ dictionary = "agents", probability = 0.8 }}
"body.answerId" = {{ dictionary = "answers", probability = 0.8 }}
"body.conversationId" = {{ dictionary = "conversations", probability = 0.8 }}
[[operations]]
include-operation-id = {json.dumps(sorted(skipped))}
enabled = false
"""


REACHED = {
    "record_task": {200, 201, 401, 404, 409, 415, 422},
    "submit_feedback": {201, 202, 401, 404, 409, 415, 422},
    "list_feedback": {200, 400, 401},
    "show_feedback": {200, 401, 404},
    "retry_feedback": {201, 202, 401, 404},
    "answer_targets": {200, 401, 404, 422},
    "conversation_targets": {200, 400, 401},
    "openapi": {200},
    "healthz": {200},
    "readyz": {200},
    "metrics": {200},
    "widget": {200},
    "widget_types": {200},
    "widget_version": {200, 404},
}
"""What a run has to get to see at least: one that only meets 404 shows nothing."""

VERSIONED = {401, 404, 409}
DECISION = {200, 401, 404, 409, 415, 422}
REACHED_BY_OPERATORS = {
    "search_submissions": {200, 400, 401},
    "show_submission": {200, 401, 404},
    "retry_submission": {200, 401, 404, 415, 422},
    "abandon_submission": {401, 404, 409, 415, 422},
    "create_job": {200, 201, 401, 415, 422},
    "list_jobs": {200, 400, 401},
    "show_job": {200, 401, 404},
    "cancel_job": {401, 404},
    "contested_tasks": {200, 400, 401},
    "long_running_tasks": {200, 400, 401},
    "read_audit": {200, 400, 401},
    "analytics": {200, 400, 401},
    "export_submissions": {200, 400, 401},
    "list_agents": {200, 400, 401},
    "show_agent": {200, 401, 404},
    "propose_agent": {201, 401, 415, 422},
    "approve_version": VERSIONED,
    "hold_version": VERSIONED,
    "resume_version": VERSIONED,
    "withdraw_version": VERSIONED,
    "revoke_version": VERSIONED,
    "declare_same_specialist": {401, 404},
    "hold_agent": DECISION,
    "resume_agent": DECISION,
}
"""Likewise, where the caller operates."""


@pytest.mark.timeout(180)
async def test_the_relay_keeps_to_its_document(seeded: Seeded, tmp_path: Path):
    """No 5xx, no status, media type or body that the document does not have, and nothing invalid is taken."""
    await keeps_to_it(seeded, tmp_path, seeded.token, REACHED, examples=12)


@pytest.mark.timeout(180)
async def test_the_operators_part_keeps_to_it_too(seeded: Seeded, tmp_path: Path):
    """Asked by a person who may operate everything, agents included that were held, revoked or proposed on the way."""
    scopes = "operator:read operator:write registry:admin"
    await keeps_to_it(seeded, tmp_path, seeded.gateway.token("olga", scopes), REACHED_BY_OPERATORS, examples=6)


async def keeps_to_it(
    seeded: Seeded, tmp_path: Path, token: str, wanted: Mapping[str, AbstractSet[int]], examples: int
) -> None:
    operations = {operation["operationId"]: (method, path) for method, path, operation in OPERATIONS}
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(configuration(seeded, token, set(operations) - set(wanted), examples))
    code, output = await run(
        "--config-file", str(settings), "run", f"{seeded.url}/openapi.json", "--checks", ",".join(CHECKS)
    )
    assert code == 0, output
    statuses = answered(seeded)
    assert not {one for one in statuses if one[1] >= 500}
    for name, reached in wanted.items():
        assert reached <= {status for route, status in statuses if route == operations[name]}, name


def test_every_operation_is_tried():
    """By the one or the other, but for those that have tests of their own."""
    names = {operation["operationId"] for _, _, operation in OPERATIONS}
    assert {*REACHED, *REACHED_BY_OPERATORS, *SKIPPED} == names


async def run(*arguments: str) -> tuple[int | None, str]:
    """Schemathesis in a process of its own; its exit code and what it printed."""
    program = Path(sys.executable).with_name("schemathesis")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(program, *arguments, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode()


def answered(seeded: Seeded) -> set[tuple[tuple[str, str], int]]:
    """Which statuses the relay answered with, by method and route, as its own metrics have it."""
    metrics = seeded.gateway.relay.metrics.registry.collect()
    samples = [
        sample.labels for metric in metrics for sample in metric.samples if sample.name.endswith("requests_total")
    ]
    return {((labels["method"], labels["route"]), int(labels["status"])) for labels in samples}
