"""The operators' part of the API, through a whole relay: who may, what is shown, and what is really done."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import Answered, Gateway, new_id, small_world
from tests.support.processes import until
from tests.support.specialist import Specialist, acknowledge, answering

READ, WRITE = "operator:read", "operator:write"
World = tuple[Gateway, Specialist]


@pytest.fixture
async def world(tmp_path: Path, database_url: str) -> AsyncIterator[World]:
    """A relay that tries once at once, and again in an hour."""
    async with small_world(tmp_path, database_url, schedule='["0s", "1h"]') as (relay, specialists):
        yield relay, specialists["literature"]


async def ask(
    relay: Gateway, method: str, path: str, body: object = None, *, tenant: str = "acme", scope: str | None = None
) -> Answered:
    """As Olga, who operates."""
    scope = scope or (READ if method == "GET" else WRITE)
    token = relay.token("olga", scope, tenant=tenant)
    return await relay.call(method, f"/api/operator/{path}", body, token=token)


async def rated(relay: Gateway, specialist: Specialist, status: int, task: str, **fields: Any) -> str:
    """A rating that the specialist answers so; its path for operators."""
    specialist.behave = answering(status) if status != 201 else acknowledge
    submission = new_id()
    await relay.record(task)
    await relay.rate(task, id=submission, **fields)
    [row] = await relay.rows(
        "SELECT o.owner_key FROM submissions s JOIN owners o ON o.id = s.owner WHERE s.id = :id", id=submission
    )
    return f"submissions/{row['owner_key']}/{submission}"


async def test_an_operator_finds_a_stuck_submission_and_has_it_saved(world: World):
    """Search, its story with what came back, a retry, and then it is saved; all of it in the audit log."""
    relay, specialist = world
    await rated(relay, specialist, 201, "t1")
    path = await rated(relay, specialist, 503, "t2", comment="The unit is WRONG", rating="down")
    found = (await ask(relay, "GET", "submissions?state=pending&q=wrong&rating=down&limit=1")).json
    assert (found["total"], found["next"], found["items"][0]["taskId"]) == (1, None, "t2")
    story = (await ask(relay, "GET", path)).json
    assert story["submission"]["comment"] == "The unit is WRONG"
    assert (story["provenance"]["answerId"], story["provenance"]["recordedBy"]) == ("a1", "workbench")
    assert [(one["status"], one["outcome"]) for one in story["attempts"]] == [(503, "retry")]
    specialist.behave = acknowledge
    retried = await ask(relay, "POST", f"{path}/retry", {"why": "it is back"})
    assert (retried.status, retried.json["outcome"], retried.json["before"]) == (200, "made_due", "pending")
    await relay.until(path.rsplit("/", 1)[1], "saved")
    again = await ask(relay, "POST", f"{path}/retry", {"why": "once more"})
    assert (again.status, again.code, again.json["state"]) == (409, "not_retryable", "saved")
    [entry] = (await ask(relay, "GET", f"audit?target={path.removeprefix('submissions/')}")).json["items"]
    assert (entry["action"], entry["why"], entry["scope"]) == ("submission.retry", "it is back", "tenant")
    assert "olga" not in str(entry)
    assert "alice" not in str(story)


async def test_an_operator_gives_up_and_takes_it_back(world: World):
    """Abandoned with a reason that everybody sees, which its owner cannot change; reopened, it is sent."""
    relay, specialist = world
    path = await rated(relay, specialist, 503, "t1")
    submission = path.rsplit("/", 1)[1]
    assert (await ask(relay, "POST", f"{path}/abandon", {})).code == "invalid_field"
    given_up = (await ask(relay, "POST", f"{path}/abandon", {"why": "no use"})).json
    assert (given_up["after"], given_up["story"]["submission"]["abandonedWhy"]) == ("abandoned", "no use")
    assert (await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())).code == "not_retryable"
    second = await ask(relay, "POST", f"{path}/abandon", {"why": "again"})
    assert (second.code, second.json["state"]) == ("not_abandonable", "abandoned")
    specialist.behave = acknowledge
    reopened = (await ask(relay, "POST", f"{path}/retry", {"why": "it was of use"})).json
    assert (reopened["outcome"], reopened["before"]) == ("reopened", "abandoned")
    shown = await relay.until(submission, "saved")
    assert shown["saved"]


async def test_a_retry_says_what_stands_in_its_way(world: World):
    """The specialist asked for an hour: due when that is over, and the answer says until when."""
    relay, specialist = world
    path = await rated(relay, specialist, 503, "t1")
    await relay.change("UPDATE deliveries SET not_before = due_at, due_at = due_at + 1000")
    answered = (await ask(relay, "POST", f"{path}/retry", {"why": "now, please"})).json
    [obstacle] = answered["story"]["obstacles"]
    assert obstacle == {"kind": "retry_after", "until": answered["story"]["submission"]["nextAttemptAt"]}


async def test_bulk_work_is_foretold_done_and_followed(world: World):
    """A dry run, a job, its progress to the end, its place in the list; then there is nothing to cancel."""
    relay, specialist = world
    for number in range(3):
        await rated(relay, specialist, 422, f"t{number}")
    await rated(relay, specialist, 201, "t3")
    body = {"kind": "retry", "filter": {"agent": "literature"}}
    foretold = await ask(relay, "POST", "jobs", {**body, "dryRun": True})
    assert (foretold.status, foretold.json) == (
        200,
        {"total": 4, "byState": {"rejected": 3, "saved": 1}, "would": {"reopened": 3, "not_retryable": 1}},
    )
    assert (await ask(relay, "GET", "jobs")).json["total"] == 0
    unfounded = await ask(relay, "POST", "jobs", body)
    assert (unfounded.status, unfounded.json["errors"][0]["pointer"]) == (422, "/why")
    created = await ask(relay, "POST", "jobs", {**body, "why": "mended"})
    assert (created.status, created.json["state"], created.json["total"]) == (201, "waiting", 4)
    path = f"jobs/{created.json['id']}"

    async def finished() -> Any:
        job = (await ask(relay, "GET", path)).json
        return job if job["state"] == "finished" else None

    job = await until(finished, "the end of the job")
    assert (job["examined"], job["results"]) == (4, {"reopened": 3, "not_retryable": 1})
    assert (job["filter"], job["why"]) == ({"agent": "literature"}, "mended")
    assert [one["id"] for one in (await ask(relay, "GET", "jobs?state=finished")).json["items"]] == [job["id"]]
    ended = await ask(relay, "POST", f"{path}/cancel")
    assert (ended.code, ended.json["state"]) == ("job_ended", "finished")


async def test_odd_tasks_are_listed(world: World):
    """One recorded under two owners, and one that has been running for two days; page by page, with totals."""
    relay, _ = world
    for task in ("shared", "also-shared"):
        await relay.record(task, sub="alice")
        await relay.record(task, sub="bob")
    await relay.record("alone")
    first = (await ask(relay, "GET", "contested-tasks?limit=1")).json
    assert (first["total"], first["items"][0]["taskId"], len(first["items"][0]["claimants"])) == (2, "shared", 2)
    second = (await ask(relay, "GET", f"contested-tasks?limit=1&cursor={first['next']}")).json
    assert ([one["taskId"] for one in second["items"]], second["next"]) == (["also-shared"], None)
    assert (await ask(relay, "GET", "contested-tasks?agent=chemistry")).json["total"] == 0
    await relay.record("long", status="running")
    assert (await ask(relay, "GET", "long-running-tasks")).json["total"] == 0
    await relay.change("UPDATE provenance SET created_at = created_at - 172800000 WHERE task IN ('long', 'alone')")
    running = (await ask(relay, "GET", "long-running-tasks?agent=literature")).json
    assert [(one["taskId"], one["runningSeconds"] // 3600) for one in running["items"]] == [("long", 48)]
    assert running["total"] == 1


async def test_another_tenants_operator_sees_and_does_nothing(world: World):
    """Lists are empty; one submission, its actions and jobs are as absent as what never was."""
    relay, specialist = world
    path = await rated(relay, specialist, 422, "t1")
    await relay.record("t1", sub="bob")
    job = (await ask(relay, "POST", "jobs", {"kind": "abandon", "filter": {"state": "held"}, "why": "w"})).json["id"]
    for listed in ("submissions", "jobs", "contested-tasks", "long-running-tasks"):
        assert (await ask(relay, "GET", listed, tenant="other")).json == {"items": [], "next": None, "total": 0}
    nobody = f"submissions/ok_nobody/{new_id()}"
    for method, one, other in (
        ("GET", path, nobody),
        ("POST", f"{path}/retry", f"{nobody}/retry"),
        ("POST", f"{path}/abandon", f"{nobody}/abandon"),
        ("GET", f"jobs/{job}", f"jobs/{new_id()}"),
        ("POST", f"jobs/{job}/cancel", f"jobs/{new_id()}/cancel"),
    ):
        body = {"why": "w"} if "submissions" in one and method == "POST" else None
        foreign = await ask(relay, method, one, body, tenant="other")
        absent = await ask(relay, method, other, body, tenant="other")
        assert (foreign.status, foreign.body) == (absent.status, absent.body) == (404, absent.body)
    audit = (await ask(relay, "GET", "audit", tenant="other")).json
    assert audit["total"] == 0
    body = {"kind": "retry", "filter": {}, "why": "all", "dryRun": True}
    assert (await ask(relay, "POST", "jobs", body, tenant="other")).json["total"] == 0


async def test_the_deployments_entries_are_for_its_administrators(tmp_path: Path, database_url: str):
    """What the configuration approved concerns no tenant: told to who may administer, and to no other operator."""
    async with small_world(tmp_path, database_url, worker=False) as (relay, _):
        assert (await ask(relay, "GET", "audit")).json["total"] == 0
        seen = (await ask(relay, "GET", "audit?action=agent.configured&limit=1", scope=f"{READ} registry:admin")).json
        assert (seen["total"], seen["items"][0]["scope"]) == (2, "deployment")
        cursor = seen["next"]
        refused = await ask(relay, "GET", f"audit?action=agent.configured&limit=1&cursor={cursor}")
        assert refused.json["parameter"] == "cursor"


async def test_an_issuer_that_may_not_administer_is_told_its_tenants_entries_only(tmp_path: Path, database_url: str):
    """Whatever scopes its tokens have."""
    async with small_world(tmp_path, database_url, worker=False, admins="[]") as (relay, _):
        assert (await ask(relay, "GET", "audit", scope=f"{READ} registry:admin")).json["total"] == 0


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        ("submissions?state=lost", "state"),
        ("submissions?mood=bad", "mood"),
        ("submissions?since=2026-03-01T09:30:00", "since"),
        ("submissions?until=yesterday", "until"),
        ("submissions?evidence=none", "evidence"),
        ("submissions?cursor=abc", "cursor"),
        ("jobs?state=done", "state"),
        ("jobs?cursor=abc", "cursor"),
        ("audit?since=2026-03-01", "since"),
        ("audit?cursor=abc", "cursor"),
        ("contested-tasks?cursor=abc", "cursor"),
        ("long-running-tasks?limit=0", "limit"),
    ],
)
async def test_what_is_wrong_is_named(world: World, path: str, parameter: str):
    """An unknown filter or state, a time without its zone, a cursor that was tampered with: 400."""
    answered = await ask(world[0], "GET", path)
    assert (answered.status, answered.json["parameter"]) == (400, parameter)


async def test_a_cursor_is_good_for_its_list_alone(world: World):
    """Under another filter, another tenant or another list it is refused."""
    relay, specialist = world
    await rated(relay, specialist, 422, "t1")
    await rated(relay, specialist, 422, "t2")
    cursor = (await ask(relay, "GET", "submissions?limit=1")).json["next"]
    following = (await ask(relay, "GET", f"submissions?limit=1&cursor={cursor}")).json
    assert ([one["taskId"] for one in following["items"]], following["total"]) == (["t1"], 2)
    for path, tenant in (
        (f"submissions?limit=1&state=rejected&cursor={cursor}", "acme"),
        (f"submissions?limit=1&cursor={cursor}", "other"),
        (f"jobs?cursor={cursor}", "acme"),
    ):
        assert (await ask(relay, "GET", path, tenant=tenant)).json["parameter"] == "cursor"


async def test_a_time_in_a_jobs_filter_has_a_zone_too(world: World):
    """422 that points at it."""
    body = {"kind": "retry", "filter": {"since": "2026-03-01T00:00:00"}, "dryRun": True}
    answered = await ask(world[0], "POST", "jobs", body)
    assert (answered.status, answered.json["errors"][0]["pointer"]) == (422, "/filter/since")


async def test_only_people_operate(world: World):
    """A machine's token is refused, whatever its scopes."""
    relay, _ = world
    machine = relay.token("workbench", f"{READ} {WRITE}")
    for path in ("submissions", "jobs", "audit", "contested-tasks", "long-running-tasks"):
        answered = await relay.call("GET", f"/api/operator/{path}", token=machine)
        assert (answered.status, answered.code) == (403, "insufficient_scope")
