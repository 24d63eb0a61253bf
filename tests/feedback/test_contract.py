"""What `POST /api/feedback` and its neighbours answer, row by row of the contract, on both engines."""

import asyncio
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from registry.model import AgentId
from tests.support.gateway import Gateway, new_id, small_world
from tests.support.specialist import Specialist, answering


async def stored(relay: Gateway) -> int:
    return int((await relay.rows("SELECT count(*) AS total FROM submissions"))[0]["total"])


async def test_an_exact_repeat_of_a_saved_one_is_201_and_sends_nothing(relay: Gateway, literature: Specialist):
    """The same UUID and content again: the same answer, and the specialist hears of it once."""
    await relay.record("t1")
    submission = new_id()
    first = await relay.rate("t1", id=submission, comment="")
    for repeat in (
        await relay.rate("t1", id=submission),
        await relay.rate("t1", id=submission.upper(), comment=None),
        await relay.rate("t1", id=submission, agent="literature"),
    ):
        assert (repeat.status, repeat.json) == (201, first.json)
    assert len(literature.posts) == 1


@pytest.mark.parametrize(
    "change", [{"rating": "down"}, {"comment": "more"}, {"taskId": "t2"}, {"agent": "chemistry"}], ids=str
)
async def test_the_same_uuid_with_other_content_is_refused(relay: Gateway, change: dict[str, str]):
    """Changed body under a known id: 409, and the first stays."""
    await relay.record("t1")
    await relay.record("t2")
    submission = new_id()
    first = await relay.rate("t1", id=submission)
    body = {"id": submission, "taskId": "t1", "rating": "up", **change}
    answered = await relay.call("POST", "/api/feedback", body, token=relay.token())
    assert (answered.status, answered.code) == (409, "uuid_reused")
    assert (await relay.show(submission)).json == first.json


async def test_a_rated_task_is_refused_with_what_stands(relay: Gateway, literature: Specialist):
    """Another UUID for a task that has been rated: 409 with the existing submission."""
    await relay.record("t1")
    first = await relay.rate("t1")
    answered = await relay.rate("t1", rating="down")
    assert (answered.status, answered.code) == (409, "already_submitted")
    assert answered.json["existing"] == first.json
    assert len(literature.posts) == 1


async def test_a_running_task_is_refused_until_it_has_finished(relay: Gateway):
    """409 while it runs; the same rating is taken once the task is completed."""
    await relay.record("t1", status="running")
    submission = new_id()
    answered = await relay.rate("t1", id=submission)
    assert (answered.status, answered.code) == (409, "task_not_finished")
    assert await stored(relay) == 0
    await relay.record("t1", status="completed")
    assert (await relay.rate("t1", id=submission)).status == 201


@pytest.mark.parametrize("status", ["completed", "failed", "canceled"])
async def test_however_a_task_ended_it_can_be_rated(relay: Gateway, status: str):
    """A failed run deserves a thumbs down too."""
    await relay.record("t1", status=status)
    assert (await relay.rate("t1", rating="down")).status == 201


async def test_several_agents_under_one_task_id_have_to_be_told_apart(
    relay: Gateway, literature: Specialist, chemistry: Specialist
):
    """No guessing: 422 with the targets, and each can be rated by name."""
    await relay.record("t1", agent="literature")
    await relay.record("t1", agent="chemistry")
    answered = await relay.rate("t1")
    assert (answered.status, answered.code) == (422, "explicit_target_required")
    assert [t["agent"] for t in answered.json["targets"]] == ["literature", "chemistry"]
    assert await stored(relay) == 0
    assert (await relay.rate("t1", agent="chemistry")).status == 201
    assert (await relay.rate("t1", agent="literature", rating="down")).status == 201
    assert len(literature.posts) == len(chemistry.posts) == 1


async def test_a_coordinators_task_cannot_be_rated(relay: Gateway):
    """A parent's id never stands in for a specialist's, with or without the agent's name."""
    await relay.record("parent", role="coordinator")
    await relay.record("t1", parentTaskId="parent")
    for fields in ({}, {"agent": "literature"}):
        answered = await relay.rate("parent", **fields)
        assert (answered.status, answered.code) == (422, "coordinator_task")
    assert await stored(relay) == 0


async def test_an_unknown_agent_name_is_an_unknown_task(relay: Gateway):
    """The task stands under no such agent."""
    await relay.record("t1")
    answered = await relay.rate("t1", agent="nobody")
    assert (answered.status, answered.code) == (404, "task_not_found")


async def test_a_foreign_task_and_an_absent_one_look_the_same(relay: Gateway):
    """B rates A's task, A's id, and reads and retries A's submission: byte for byte as if there were none."""
    await relay.record("t1")
    await relay.record("mine", sub="bob")
    submission = new_id()
    await relay.rate("t1", id=submission)
    pairs = [
        ("POST", "/api/feedback", {"id": new_id(), "taskId": "t1", "rating": "up"}, {"taskId": "absent"}),
        ("GET", f"/api/feedback/{submission}", None, new_id()),
        ("POST", f"/api/feedback/{submission}/retry", None, new_id()),
        ("GET", "/api/answers/a1/targets", None, None),
    ]
    await relay.record("t9", answerId="only-alices", conversationId="c-alice")
    bob = relay.token("bob")
    for method, path, body, absent in pairs[:3]:
        foreign = await relay.call(method, path, body, token=bob)
        if isinstance(absent, dict):
            nothing = await relay.call(method, path, {**(body or {}), **absent}, token=bob)
        else:
            nothing = await relay.call(method, path.replace(submission, str(absent)), body, token=bob)
        assert foreign.status == 404
        assert foreign.body == nothing.body
        ignored = {"Date"}
        assert {k: v for k, v in foreign.headers.items() if k not in ignored} == {
            k: v for k, v in nothing.headers.items() if k not in ignored
        }
    for path in ("/api/answers/{}/targets", "/api/conversations/{}/targets"):
        foreign = await relay.call("GET", path.format("only-alices" if "answers" in path else "c-alice"), token=bob)
        nothing = await relay.call("GET", path.format("absent"), token=bob)
        assert (foreign.status, foreign.body) == (404, nothing.body)


async def test_the_uuid_is_unique_per_owner_only(relay: Gateway):
    """Nobody can block or detect another's UUID by using it."""
    await relay.record("t1")
    await relay.record("t2", sub="bob")
    submission = new_id()
    assert (await relay.rate("t1", id=submission)).status == 201
    assert (await relay.rate("t2", id=submission, sub="bob", rating="down")).status == 201
    assert (await relay.show(submission)).json["rating"] == "up"
    assert (await relay.show(submission, sub="bob")).json["rating"] == "down"


async def test_fifty_identical_posts_at_once_store_one_row(relay: Gateway, literature: Specialist):
    """Whoever wins the race, every answer tells of the same submission, none is a 500."""
    await relay.record("t1")
    submission = new_id()
    answers = await asyncio.gather(*(relay.rate("t1", id=submission) for _ in range(50)))
    assert Counter(a.status for a in answers) == {201: 50}
    assert {a.json["id"] for a in answers} == {submission}
    assert await stored(relay) == 1
    assert len({r.body for r in literature.posts}) == 1


async def test_fifty_different_uuids_for_one_task_store_one_row(relay: Gateway):
    """One submission per owner and task: one is stored, the others are told which."""
    await relay.record("t1")
    answers = await asyncio.gather(*(relay.rate("t1") for _ in range(50)))
    assert Counter(a.status for a in answers) == {201: 1, 409: 49}
    assert {a.code for a in answers if a.status == 409} == {"already_submitted"}
    assert await stored(relay) == 1


async def test_a_final_refusal_ends_the_delivery_and_a_retry_opens_a_new_window(relay: Gateway, literature: Specialist):
    """A 422 is final: the first answer is 202 rejected, a repeat 200, an explicit retry sends the same bytes again."""
    await relay.record("t1")
    literature.behave = answering(422, {"error": "no"})
    submission = new_id()
    first = await relay.rate("t1", id=submission)
    assert (first.status, first.json["state"], first.json["saved"]) == (202, "rejected", False)
    repeat = await relay.rate("t1", id=submission)
    assert (repeat.status, repeat.json["lastAttempt"]["status"]) == (200, 422)
    assert len(literature.posts) == 1
    literature.behave = Specialist().behave
    retried = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token(),
                               headers={"Prefer": "wait=10"})  # fmt: skip
    assert (retried.status, retried.json["state"]) == (201, "saved")
    assert len({r.body for r in literature.posts}) == 1
    again = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    assert again.status == 201
    assert len(literature.posts) == 2


@pytest.mark.parametrize("state", ["conflict", "abandoned"])
async def test_what_an_owner_cannot_retry(relay: Gateway, state: str):
    """409 with the state as it is."""
    await relay.record("t1")
    submission = new_id()
    await relay.rate("t1", id=submission)
    await relay.change("UPDATE deliveries SET state = :state, saved_at = NULL", state=state)
    answered = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    assert (answered.status, answered.code, answered.json["state"]) == (409, "not_retryable", state)


async def test_an_erased_submission_is_gone_for_good(relay: Gateway):
    """Its UUID and its task answer 410; the row stays as its own tombstone."""
    await relay.record("t1")
    submission = new_id()
    await relay.rate("t1", id=submission)
    await relay.change(
        "UPDATE submissions SET rating = NULL, comment = NULL, payload = NULL, sha256 = NULL, erased_at = 1"
    )
    for fields in ({"id": submission}, {"id": new_id()}):
        answered = await relay.rate("t1", **fields)
        assert (answered.status, answered.code) == (410, "submission_erased")
    retried = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    assert (retried.status, retried.code) == (410, "submission_erased")
    assert await stored(relay) == 1


async def test_a_held_agent_is_202_held_and_sends_nothing(relay: Gateway, literature: Specialist):
    """An operator holds the agent: the rating is stored and waits; neither a repeat nor a retry overrides it."""
    from relay.operators.agents import Agents  # noqa: PLC0415

    await relay.record("t1")
    agents = Agents(relay.relay.db)
    await agents.hold("acme", AgentId("literature"), "ops", "maintenance")
    submission = new_id()
    answered = await relay.rate("t1", id=submission)
    assert (answered.status, answered.json["state"], answered.json["nextAttemptAt"]) == (202, "held", None)
    assert (await relay.rate("t1", id=submission)).json["state"] == "held"
    retried = await relay.call("POST", f"/api/feedback/{submission}/retry", token=relay.token())
    assert (retried.status, retried.json["state"]) == (202, "held")
    assert literature.posts == []
    await agents.resume("acme", AgentId("literature"), "ops", None)
    await relay.until(submission, "saved")


async def test_a_revoked_agent_takes_nothing(relay: Gateway):
    """409, and nothing is stored; a submission stored before is held, and its exact repeat still answers."""
    from relay.operators.agents import Agents  # noqa: PLC0415

    await relay.record("t1")
    await relay.record("t2")
    submission = new_id()
    await relay.rate("t1", id=submission)
    await Agents(relay.relay.db).revoke(AgentId("literature"), "ops", "gone")
    answered = await relay.rate("t2")
    assert (answered.status, answered.code) == (409, "destination_not_approved")
    assert await stored(relay) == 1
    assert (await relay.rate("t1", id=submission)).status == 201


async def test_a_task_of_another_client_has_no_credential(relay: Gateway):
    """The agent's only credential acts for the machine client: a task that ran as its owner cannot be forwarded."""
    await relay.record("t1", ranAs="owner")
    answered = await relay.rate("t1")
    assert (answered.status, answered.code) == (409, "destination_cannot_act_for_owner")
    targets = await relay.call("GET", "/api/answers/a1/targets", token=relay.token())
    assert targets.json["targets"][0]["reason"] == "destination_cannot_act_for_owner"


BAD_BODIES: list[tuple[Any, int, str, str | None]] = [
    (b"", 400, "malformed_json", None),
    (b"{", 400, "malformed_json", None),
    (b"[]", 422, "invalid_field", ""),
    (b'{"id": 1}', 422, "invalid_field", "/id"),
    ({"rating": "thumbup"}, 422, "invalid_field", "/rating"),
    ({"rating": "UP"}, 422, "invalid_field", "/rating"),
    ({"rating": True}, 422, "invalid_field", "/rating"),
    ({"rating": None}, 422, "invalid_field", "/rating"),
    ({"owner": "bob"}, 422, "invalid_field", "/owner"),
    ({"userId": "bob"}, 422, "invalid_field", "/userId"),
    ({"subject": "bob"}, 422, "invalid_field", "/subject"),
    ({"id": "not-a-uuid"}, 422, "invalid_field", "/id"),
    ({"id": uuid.uuid4().hex}, 422, "invalid_field", "/id"),
    ({"id": "{" + str(uuid.uuid4()) + "}"}, 422, "invalid_field", "/id"),
    ({"id": str(uuid.uuid4()) + "\n"}, 422, "invalid_field", "/id"),
    ({"taskId": ""}, 422, "invalid_field", "/taskId"),
    ({"taskId": "x" * 257}, 422, "invalid_field", "/taskId"),
    ({"taskId": "a\nb"}, 422, "invalid_field", "/taskId"),
    ({"taskId": "a\n"}, 422, "invalid_field", "/taskId"),
    ({"comment": "x" * 4001}, 422, "invalid_field", "/comment"),
    ({"comment": "x" * 4269}, 422, "invalid_field", "/comment"),
    ({"comment": "\U0001f600" * 2001}, 422, "invalid_field", "/comment"),
    ({"comment": 5}, 422, "invalid_field", "/comment"),
    (b'{"id": "a", "id": "b"}', 400, "malformed_json", None),
    (b'{"comment": "a\\u0000b"}', 400, "malformed_json", None),
    (b'{"comment": "\\ud800"}', 400, "malformed_json", None),
    (b'{"comment": NaN}', 400, "malformed_json", None),
    (b"[" * 100_00, 400, "malformed_json", None),
    (b'{"comment": "' + b"x" * 70_000 + b'"}', 413, "body_too_large", None),
]


@pytest.mark.parametrize(("body", "status", "code", "pointer"), BAD_BODIES, ids=map(str, range(len(BAD_BODIES))))
async def test_bad_input_is_refused_with_what_to_change(
    relay: Gateway, body: Any, status: int, code: str, pointer: str | None
):
    """Every defect has its own clear answer, and nothing is stored."""
    await relay.record("t1")
    raw = (
        body
        if isinstance(body, bytes)
        else json.dumps({"id": new_id(), "taskId": "t1", "rating": "up", **body}).encode()
    )
    answered = await relay.call("POST", "/api/feedback", token=relay.token(), data=raw)
    assert (answered.status, answered.code) == (status, code)
    assert answered.headers["Content-Type"] == "application/problem+json"
    assert answered.json["type"] == f"urn:feedback-relay:{code}"
    if pointer is not None:
        assert pointer in [e["pointer"] for e in answered.json["errors"]]
    assert await stored(relay) == 0


@pytest.mark.parametrize(
    "comment",
    [
        "x" * 4000,
        "\U0001f600" * 2000,
        "👨‍👩‍👧‍👦" * 363,
        "e\u0301" * 2000,
        "\u0000".replace("\u0000", "\x01"),
        '"><script>',
        "=1+1",
    ],
    ids=["4000", "2000 emoji", "families", "combining", "control", "script", "formula"],
)
async def test_a_comment_arrives_as_it_was_written(relay: Gateway, literature: Specialist, comment: str):
    """4000 UTF-16 code units, whatever they spell, reach the specialist unchanged."""
    await relay.record("t1")
    answered = await relay.rate("t1", comment=comment)
    assert answered.status == 201
    assert answered.json["comment"] == comment
    assert literature.posts[0].json["comment"] == comment


@pytest.mark.parametrize(
    ("method", "path", "scope"),
    [
        ("POST", "/api/feedback", "feedback:write"),
        ("POST", "/api/feedback/x/retry", "feedback:write"),
        ("GET", "/api/feedback", "feedback:read"),
        ("GET", "/api/feedback/x", "feedback:read"),
        ("GET", "/api/feedback/events", "feedback:read"),
        ("GET", "/api/answers/x/targets", "feedback:read"),
        ("GET", "/api/conversations/x/targets", "feedback:read"),
        ("PUT", "/api/provenance/tasks/literature/x", "provenance:write"),
    ],
)
async def test_every_route_wants_its_scope(relay: Gateway, method: str, path: str, scope: str):
    """No token: 401; a token without the scope: 403 that names it."""
    nobody = await relay.call(method, path, {} if method != "GET" else None)
    assert (nobody.status, nobody.code) == (401, "unauthenticated")
    assert nobody.headers["WWW-Authenticate"].startswith("Bearer")
    lacking = await relay.call(method, path, {} if method != "GET" else None, token=relay.token(scope="cards:read"))
    assert (lacking.status, lacking.code) == (403, "insufficient_scope")
    assert scope in lacking.headers["WWW-Authenticate"]


async def test_a_list_pages_through_everything_once(relay: Gateway):
    """Newest first, at most the limit a page, by cursors that belong to this owner and filter."""
    ids = []
    for n in range(7):
        await relay.record(f"t{n}", agent="chemistry" if n % 2 else "literature")
        ids.append(new_id())
        await relay.rate(f"t{n}", id=ids[-1])
    seen, path = [], "/api/feedback?limit=3"
    cursor = ""
    while True:
        page = (await relay.call("GET", path + cursor, token=relay.token())).json
        seen += [item["id"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = f"&cursor={page['next']}"
    assert seen == ids[::-1]
    filtered = (await relay.call("GET", "/api/feedback?agent=chemistry&state=saved", token=relay.token())).json
    assert [item["id"] for item in filtered["items"]] == [ids[5], ids[3], ids[1]]
    one = (await relay.call("GET", "/api/feedback?taskId=t4", token=relay.token())).json
    assert [item["id"] for item in one["items"]] == [ids[4]]
    assert (await relay.call("GET", f"/api/feedback?limit=3{cursor}", token=relay.token("bob"))).status == 400
    assert (await relay.call("GET", f"/api/feedback?state=saved{cursor}", token=relay.token())).status == 400


@pytest.mark.parametrize(
    ("query", "name"),
    [("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("state=lost", "state"),
     ("cursor=abc", "cursor"),
     ("page=2", "page"), ("limit=1&limit=2", "limit")],
)  # fmt: skip
async def test_a_bad_parameter_is_named(relay: Gateway, query: str, name: str):
    """400 with the name of the parameter."""
    answered = await relay.call("GET", f"/api/feedback?{query}", token=relay.token())
    assert (answered.status, answered.code, answered.json["parameter"]) == (400, "invalid_parameter", name)


async def test_targets_show_each_contributor_and_what_became_of_it(relay: Gateway):
    """Specialists only, each with whether it can be rated, why not, and its submission."""
    await relay.record("parent", role="coordinator", agent="literature")
    await relay.record("t1", agent="literature", parentTaskId="parent")
    await relay.record("t2", agent="chemistry", status="running")
    await relay.record("t3", agent="literature", answerId="a2")
    submission = new_id()
    await relay.rate("t1", id=submission)
    answer = (await relay.call("GET", "/api/answers/a1/targets", token=relay.token())).json
    assert answer["explicitTargetRequired"] is True
    assert [(t["agent"], t["taskId"], t["rateable"], t["reason"]) for t in answer["targets"]] == [
        ("literature", "t1", False, "already_submitted"),
        ("chemistry", "t2", False, "task_not_finished"),
    ]
    assert answer["targets"][0]["submission"]["id"] == submission
    conversation = (await relay.call("GET", "/api/conversations/c1/targets?limit=1", token=relay.token())).json
    assert conversation["items"] == [answer]
    rest = await relay.call("GET", f"/api/conversations/c1/targets?limit=1&cursor={conversation['next']}",
                            token=relay.token())  # fmt: skip
    assert [item["answerId"] for item in rest.json["items"]] == ["a2"]
    assert rest.json["items"][0]["targets"][0]["rateable"] is True
    assert rest.json["next"] is None


async def test_targets_name_the_caller_by_the_opaque_key_alone(relay: Gateway):
    """`ownerKey` is the owner's stored key: one and the same in both reads, another for another person."""
    await relay.record("t1")
    await relay.record("t1", sub="bob")
    keys = {}
    for sub in ("alice", "bob"):
        answer = (await relay.call("GET", "/api/answers/a1/targets", token=relay.token(sub))).json
        conversation = (await relay.call("GET", "/api/conversations/c1/targets", token=relay.token(sub))).json
        assert conversation["items"][0]["ownerKey"] == answer["ownerKey"]
        keys[sub] = answer["ownerKey"]
    stored = await relay.rows("SELECT DISTINCT o.owner_key FROM owners o JOIN provenance p ON p.owner = o.id")
    assert {row["owner_key"] for row in stored} == set(keys.values())
    assert keys["alice"] != keys["bob"]


async def test_targets_say_for_how_long_a_comment_is_kept(tmp_path: Path, database_url: str):
    """By the policy of the tenant that the caller's token names: what the comment box tells its writer."""
    policies = "[retention]\ndays = 90\n[retention.tenants.initech]\ndays = 0"
    async with small_world(tmp_path, database_url, more=policies) as (relay, _):
        await relay.record("t1")
        for tenant, days in (("acme", 90), ("initech", None)):
            token = relay.token(tenant=tenant)
            answer = (await relay.call("GET", "/api/answers/a1/targets", token=token)).json
            conversation = (await relay.call("GET", "/api/conversations/c1/targets", token=token)).json
            assert answer["retentionDays"] == days
            assert conversation["items"] == [answer]


async def test_nothing_of_the_callers_request_goes_out(relay: Gateway, literature: Specialist):
    """Authorization, cookies and keys of the caller stay here; the trace goes on."""
    await relay.record("t1")
    body = {"id": new_id(), "taskId": "t1", "rating": "up"}
    token = relay.token()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"Cookie": "session=secret", "X-Api-Key": "secret", "X-Forwarded-For": "10.1.2.3", "traceparent": trace,
               "Prefer": "wait=10"}  # fmt: skip
    await relay.call("POST", "/api/feedback", body, token=token, headers=headers)
    sent = {name.lower(): value for name, value in literature.posts[0].headers.items()}
    assert not {"cookie", "x-api-key", "x-forwarded-for", "prefer"} & sent.keys()
    assert token not in json.dumps(sent)
    assert sent["traceparent"].split("-")[1] == trace.split("-")[1]


async def test_the_payload_is_stored_as_it_goes_out(relay: Gateway, literature: Specialist):
    """The exact bytes and their SHA-256 are stored at acceptance."""
    import hashlib  # noqa: PLC0415

    await relay.record("t1")
    await relay.rate("t1", comment="Grüße ✓")
    row = (await relay.rows("SELECT payload, sha256 FROM submissions"))[0]
    assert bytes(row["payload"]) == literature.posts[0].body
    assert row["sha256"] == hashlib.sha256(literature.posts[0].body).hexdigest()
