"""What the receiver answers over HTTP, on both engines."""

import asyncio
import gzip
import json
from typing import Any, TypeAlias

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from registry.protocols.contract import Acknowledged, Answer, Rated, TryLater
from registry.protocols.roblox_v1 import RobloxV1
from relay.receiver import store
from relay.storage.engine import Database
from tests.receiver.conftest import Specialist

Client: TypeAlias = TestClient[web.Request, web.Application]

ID = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a001"
OTHER = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a002"
ALICE = {"Authorization": "Bearer alices-token"}
BOB = {"Authorization": "Bearer bobs-token"}
OPERATOR = {"Authorization": "Bearer operators-token"}


def body(**changes: object) -> dict[str, object]:
    return {"id": ID, "taskId": "run-1", "rating": "up", **changes}


async def post(client: Client, sent: object, caller: dict[str, str] = ALICE, **headers: str) -> ClientResponse:
    raw = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/api/feedback", data=raw, headers={"Content-Type": "application/json"} | caller | names)


async def listed(client: Client, caller: dict[str, str] = ALICE) -> list[dict[str, Any]]:
    response = await client.get("/api/feedback", headers=caller)
    assert response.status == 200
    rows: list[dict[str, Any]] = await response.json()
    return rows


async def patch(client: Client, sent: object, caller: dict[str, str] = OPERATOR) -> ClientResponse:
    return await client.patch("/api/feedback", json=sent, headers=caller)


async def problem(response: ClientResponse) -> tuple[int, str, list[str]]:
    """Status, code and pointers of a problem document."""
    assert response.content_type == "application/problem+json"
    document = await response.json()
    assert document["status"] == response.status
    return response.status, document["code"], [error["pointer"] for error in document.get("errors", [])]


async def test_a_rating_is_saved_and_listed(client: Client):
    """A POST is acknowledged exactly as the protocol says, and GET shows the row with what was sent."""
    response = await post(client, body(comment="très bien 👍"), Idempotency_Key=ID)
    assert (response.status, await response.json()) == (201, {"id": ID, "saved": True})
    [row] = await listed(client)
    created_at = row.pop("createdAt")
    assert created_at.endswith("Z")
    assert row == body(comment="très bien 👍") | {"owner": "ok_alice", "resolution": None}


async def test_the_relays_own_adapter_is_content(client: Client):
    """What the adapter encodes is acknowledged to it, refused while the task runs, and found when read back."""
    roblox = RobloxV1()

    async def send(rated: Rated) -> Answer:
        request = roblox.encode(rated)
        response = await client.request(
            request.method, request.path, data=request.body, headers=ALICE | dict(request.headers)
        )
        return Answer(response.status, {}, await response.read())

    rated = Rated(ID, "run-1", "down", 'so "so"\n\u2028')
    assert roblox.interpret(await send(rated), ID) == Acknowledged()
    assert roblox.interpret(await send(Rated(OTHER, "run-3", "up", None)), OTHER) == TryLater("task_not_finished")
    response = await client.get("/api/feedback", headers=ALICE)
    answer = Answer(response.status, {}, await response.read())
    assert roblox.find(answer, rated) == "same"
    assert roblox.find(answer, Rated(ID, "run-1", "up", None)) == "different"
    assert roblox.find(answer, Rated(OTHER, "run-3", "up", None)) == "absent"


async def test_an_exact_repeat_is_acknowledged_again(client: Client):
    """No comment has three spellings and a UUID two: each is the same rating, acknowledged with the same body."""
    assert (await post(client, body())).status == 201
    for repeat in (body(), body(comment=""), body(comment=None), body(id=ID.upper())):
        response = await post(client, repeat, Idempotency_Key=str(repeat["id"]))
        assert (response.status, await response.json()) == (201, {"id": ID, "saved": True})
    assert len(await listed(client)) == 1


async def test_a_repeat_does_not_depend_on_the_task(client: Client, specialist: Specialist):
    """What is stored is acknowledged even after the host has forgotten the task."""
    await post(client, body())
    specialist.tasks.clear()
    assert (await post(client, body())).status == 201
    assert specialist.asked == [("ok_alice", "run-1")]


async def test_other_content_under_a_known_uuid_is_refused(client: Client):
    """A changed body under a known id is a 409, and the first stays."""
    await post(client, body())
    before = await listed(client)
    for change in ({"rating": "down"}, {"comment": "more"}, {"taskId": "run-2"}, {"taskId": "absent"}):
        assert await problem(await post(client, body(**change))) == (409, "uuid_reused", [])
    assert await listed(client) == before


async def test_another_uuid_for_a_rated_task_is_a_second_row(client: Client):
    """The receiver keeps every rating that a task gets; choosing among them is the specialist's business."""
    await post(client, body())
    assert (await post(client, body(id=OTHER, rating="down"))).status == 201
    assert [(row["id"], row["rating"]) for row in await listed(client)] == [(OTHER, "down"), (ID, "up")]


async def test_a_uuid_is_one_owners(client: Client):
    """Another owner may use the same UUID, neither sees the other's row."""
    await post(client, body())
    assert (await post(client, body(taskId="run-9", rating="down"), BOB)).status == 201
    assert [row["taskId"] for row in await listed(client)] == ["run-1"]
    assert [row["taskId"] for row in await listed(client, BOB)] == ["run-9"]


async def test_a_running_task_is_refused(client: Client, specialist: Specialist):
    """A task that still runs is a 409 with the code that the relay retries on; once finished it is taken."""
    assert await problem(await post(client, body(taskId="run-3"))) == (409, "task_not_finished", [])
    assert await listed(client) == []
    specialist.tasks["ok_alice", "run-3"] = "finished"
    assert (await post(client, body(taskId="run-3"))).status == 201


async def test_a_host_that_answers_nonsense_is_a_failure(sqlite_client: Client, specialist: Specialist):
    """A status that the hook may not give stores nothing: neither finished nor running is assumed."""
    specialist.tasks["ok_alice", "run-1"] = "done"  # type: ignore[assignment]
    assert await problem(await post(sqlite_client, body())) == (500, "internal_error", [])
    assert await listed(sqlite_client) == []


async def test_foreign_and_unknown_tasks_look_alike(client: Client):
    """Somebody else's task and none at all get the same answer, byte for byte."""
    foreign, unknown = await post(client, body(taskId="run-9")), await post(client, body(taskId="run-0"))
    assert await problem(foreign) == (404, "task_not_found", [])
    assert await foreign.read() == await unknown.read()
    assert {k: v for k, v in foreign.headers.items() if k != "Date"} == {
        k: v for k, v in unknown.headers.items() if k != "Date"
    }
    assert await listed(client) == []


async def test_fifty_identical_posts_at_once_are_one_row(client: Client):
    """All of them are acknowledged, one is stored."""
    responses = await asyncio.gather(*(post(client, body()) for _ in range(50)))
    assert [response.status for response in responses] == [201] * 50
    assert len(await listed(client)) == 1


async def test_fifty_different_posts_of_one_uuid_at_once_are_one_row(client: Client):
    """The stored one is acknowledged; every other is told that the UUID is taken."""
    responses = await asyncio.gather(*(post(client, body(comment=f"c{n}")) for n in range(50)))
    [row] = await listed(client)
    expected = [201 if row["comment"] == f"c{n}" else 409 for n in range(50)]
    assert [response.status for response in responses] == expected


REFUSED: list[tuple[str, object, tuple[int, str, list[str]]]] = [
    ("unknown field", body(owner="ok_bob"), (422, "invalid_field", ["/owner"])),
    ("the relay's own field", body(agent="literature"), (422, "invalid_field", ["/agent"])),
    ("unknown word", body(rating="UP"), (422, "invalid_field", ["/rating"])),
    ("thumbup", body(rating="thumbup"), (422, "invalid_field", ["/rating"])),
    ("boolean rating", body(rating=True), (422, "invalid_field", ["/rating"])),
    ("null rating", body(rating=None), (422, "invalid_field", ["/rating"])),
    ("missing rating", {"id": ID, "taskId": "run-1"}, (422, "invalid_field", ["/rating"])),
    ("missing task", {"id": ID, "rating": "up"}, (422, "invalid_field", ["/taskId"])),
    ("missing id", {"taskId": "run-1", "rating": "up"}, (422, "invalid_field", ["/id"])),
    ("no dashes", body(id=ID.replace("-", "")), (422, "invalid_field", ["/id"])),
    ("braces", body(id=f"{{{ID}}}"), (422, "invalid_field", ["/id"])),
    ("line end", body(id=ID + "\n"), (422, "invalid_field", ["/id"])),
    ("not hexadecimal", body(id="g" + ID[1:]), (422, "invalid_field", ["/id"])),
    ("other digits", body(id="٣" + ID[1:]), (422, "invalid_field", ["/id"])),
    ("empty task", body(taskId=""), (422, "invalid_field", ["/taskId"])),
    ("long task", body(taskId="x" * 257), (422, "invalid_field", ["/taskId"])),
    ("control in task", body(taskId="run-1\n"), (422, "invalid_field", ["/taskId"])),
    ("number for a task", body(taskId=1), (422, "invalid_field", ["/taskId"])),
    ("number for a comment", body(comment=1), (422, "invalid_field", ["/comment"])),
    ("4001 letters", body(comment="x" * 4001), (422, "invalid_field", ["/comment"])),
    ("2001 emoji", body(comment="😀" * 2001), (422, "invalid_field", ["/comment"])),
    ("an array", [body()], (422, "invalid_field", [""])),
    ("NUL", body(comment="a\u0000b"), (400, "malformed_json", ["/comment"])),
    ("lone surrogate", body(comment="\ud800"), (400, "malformed_json", ["/comment"])),
    ("same member twice", b'{"rating":"up","rating":"up"}', (400, "malformed_json", ["/rating"])),
    ("NaN", b'{"rating":NaN}', (400, "malformed_json", [])),
    ("not JSON", b"rating=up", (400, "malformed_json", [])),
    ("not UTF-8", b'"\xff"', (400, "malformed_json", [])),
    ("deep", b"[" * 50_000, (400, "malformed_json", [])),
    ("64 KiB and one", b" " * 65_537, (413, "body_too_large", [])),
]


@pytest.mark.parametrize(("sent", "expected"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_bad_bodies_are_refused(sqlite_client: Client, sent: object, expected: tuple[int, str, list[str]]):
    """Each is a problem document that names the place, and nothing is stored."""
    assert await problem(await post(sqlite_client, sent)) == expected
    assert await listed(sqlite_client) == []


async def test_comments_up_to_the_limit_are_kept_exactly(client: Client):
    """Length counts UTF-16 code units, as a browser does, and no normalisation changes a comment."""
    comments = ["x" * 4000, "😀" * 2000, "👩‍👩‍👧‍👦" * 363, "e\u0301" * 2000, "\x01"]
    for n, comment in enumerate(comments):
        assert (await post(client, body(id=f"{ID[:-1]}{n}", comment=comment))).status == 201
    assert [row["comment"] for row in await listed(client)] == comments[::-1]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Content_Type": "text/plain"}, (415, "unsupported_media_type")),
        ({"Content_Encoding": "gzip"}, (415, "unsupported_content_encoding")),
        ({"Idempotency_Key": OTHER}, (400, "invalid_parameter")),
        ({"Idempotency_Key": ""}, (400, "invalid_parameter")),
    ],
)
async def test_bad_headers_are_refused(sqlite_client: Client, headers: dict[str, str], expected: tuple[int, str]):
    """A body that is not plain JSON, or a key that is not the id, is refused and nothing is stored."""
    raw = json.dumps(body()).encode()
    sent = gzip.compress(raw) if "Content_Encoding" in headers else raw
    assert (await problem(await post(sqlite_client, sent, **headers)))[:2] == expected
    assert await listed(sqlite_client) == []


@pytest.mark.parametrize("key", [ID.upper(), f'"{ID}"'])
async def test_an_idempotency_key_has_more_spellings(sqlite_client: Client, key: str):
    """Capitals are the same UUID, and a structured field (RFC 8941) comes in quotes."""
    assert (await post(sqlite_client, body(), Idempotency_Key=key)).status == 201


async def test_unknown_callers_are_refused_before_anything_else(sqlite_client: Client, specialist: Specialist):
    """Without valid credentials there is a 401 with the host's challenge, whatever was asked for."""
    nobody = {"Authorization": "Bearer guessed"}
    for response in (
        await post(sqlite_client, b"not even JSON", nobody),
        await sqlite_client.get("/api/feedback"),
        await patch(sqlite_client, {}, nobody),
        await sqlite_client.get("/api/analytics?scope=all", headers=nobody),
    ):
        assert await problem(response) == (401, "unauthenticated", [])
        assert response.headers["WWW-Authenticate"] == 'Bearer realm="specialist"'
    assert specialist.asked == []


async def test_only_the_newest_hundred_are_listed(client: Client):
    """The list is the protocol's window: a hundred rows, newest first, of this owner alone."""
    await post(client, body(taskId="run-9"), BOB)
    ids = [f"0b8f1f0e-0b0e-4a44-9c7e-000000000{n:03}" for n in range(101)]
    for rated in ids:
        await post(client, body(id=rated))
    assert [row["id"] for row in await listed(client)] == ids[:0:-1]


async def test_an_operator_resolves(client: Client):
    """PATCH overwrites the resolution of anybody's rating, its owner sees it, and nothing else changes."""
    await post(client, body(comment="broken"))
    [before] = await listed(client)
    for resolution in ("known", "fixed in r12\n\tand r13", None):
        response = await patch(client, {"id": ID.upper(), "owner": "ok_alice", "resolution": resolution})
        assert (response.status, await response.json()) == (200, before | {"resolution": resolution})
        assert await listed(client) == [before | {"resolution": resolution}]


async def test_a_resolved_rating_is_still_the_same_rating(client: Client):
    """A repeat after the resolution is acknowledged, and the resolution stays."""
    await post(client, body())
    await patch(client, {"id": ID, "owner": "ok_alice", "resolution": "fixed"})
    assert (await post(client, body())).status == 201
    assert [row["resolution"] for row in await listed(client)] == ["fixed"]


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"id": OTHER, "owner": "ok_alice", "resolution": "x"}, (404, "submission_not_found", [])),
        ({"id": ID, "owner": "ok_bob", "resolution": "x"}, (404, "submission_not_found", [])),
        ({"id": ID, "owner": "ok_alice"}, (422, "invalid_field", ["/resolution"])),
        ({"id": ID, "owner": "", "resolution": "x"}, (422, "invalid_field", ["/owner"])),
        ({"id": "1", "owner": "ok_alice", "resolution": "x"}, (422, "invalid_field", ["/id"])),
        ({"id": ID, "owner": "ok_alice", "resolution": True}, (422, "invalid_field", ["/resolution"])),
        ({"id": ID, "owner": "ok_alice", "resolution": "😀" * 501}, (422, "invalid_field", ["/resolution"])),
        ({"id": ID, "owner": "ok_alice", "resolution": "fixed\x1b[2J"}, (422, "invalid_field", ["/resolution"])),
        ({"id": ID, "owner": "ok_alice", "resolution": "x", "rating": "up"}, (422, "invalid_field", ["/rating"])),
    ],
)
async def test_bad_resolutions_are_refused(sqlite_client: Client, sent: object, expected: tuple[int, str, list[str]]):
    """A PATCH needs an existing row and exactly its three members; otherwise nothing changes."""
    await post(sqlite_client, body())
    assert await problem(await patch(sqlite_client, sent)) == expected
    assert [row["resolution"] for row in await listed(sqlite_client)] == [None]


async def test_only_operators_resolve_and_see_everything(sqlite_client: Client):
    """A caller who is no operator gets a 403 for PATCH and analytics, even of their own row."""
    await post(sqlite_client, body())
    mine = {"id": ID, "owner": "ok_alice", "resolution": "x"}
    for response in (
        await patch(sqlite_client, mine, ALICE),
        await sqlite_client.get("/api/analytics?scope=all", headers=ALICE),
        await sqlite_client.get("/api/analytics?scope=mine", headers=ALICE),
    ):
        assert await problem(response) == (403, "insufficient_scope", [])
        assert response.headers["WWW-Authenticate"] == 'Bearer error="insufficient_scope"'
    assert [row["resolution"] for row in await listed(sqlite_client)] == [None]


async def test_analytics_lists_the_rows_of_every_caller(client: Client):
    """An operator sees each row as its owner does, newest first."""
    await post(client, body(comment="één"))
    await post(client, body(taskId="run-9", rating="down"), BOB)
    response = await client.get("/api/analytics?scope=all", headers=OPERATOR)
    assert (response.status, response.content_type) == (200, "application/json")
    assert response.headers["Cache-Control"] == "no-store"
    assert await response.json() == [*(await listed(client, BOB)), *(await listed(client))]


async def test_analytics_has_no_end_to_its_list(client: Client, database: Database):
    """However many rows there are, none, a full page or more, each is listed once, in one array."""
    ids: list[str] = []
    for count in (0, store.PAGE, store.PAGE + 1):
        async with database.write() as connection:
            while len(ids) < count:
                ids.append(f"0b8f1f0e-0b0e-4a44-9c7e-{len(ids):012}")
                values = {"owner": "ok_alice", "id": ids[-1], "task": "run-1", "rating": "up", "comment": None}
                await connection.execute(database.sql(store._ADD), values)
        response = await client.get("/api/analytics?scope=all", headers=OPERATOR)
        assert [row["id"] for row in await response.json()] == ids[::-1]


@pytest.mark.parametrize("query", ["", "?scope=own", "?scope=ALL", "?scope=", "?scope=all&scope=own"])
async def test_analytics_knows_one_scope(sqlite_client: Client, query: str):
    """Anything but `scope=all` is a 400 that names the parameter."""
    response = await sqlite_client.get(f"/api/analytics{query}", headers=OPERATOR)
    assert await problem(response) == (400, "invalid_parameter", [])
    assert "scope" in (await response.json())["detail"]


async def test_answers_are_the_same_after_a_restart(specialist: Specialist, database_url: str):
    """Another process on the same database acknowledges, refuses and lists as the first one did."""
    seen = []
    for _ in range(2):
        database = Database.open(database_url)
        async with TestClient(TestServer(specialist.app(database))) as client:
            answers = [await post(client, body()), await post(client, body(rating="down"))]
            seen.append(([(a.status, await a.read()) for a in answers], await listed(client)))
        await database.close()
    assert seen[0] == seen[1]
    assert [status for status, _ in seen[0][0]] == [201, 409]


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("DELETE", "/api/feedback", (405, "method_not_allowed", [])),
        ("PUT", "/api/feedback", (405, "method_not_allowed", [])),
        ("POST", "/api/analytics", (405, "method_not_allowed", [])),
        ("GET", "/api/other", (404, "not_found", [])),
    ],
)
async def test_what_there_is_not(sqlite_client: Client, method: str, path: str, expected: tuple[int, str, list[str]]):
    """Ratings cannot be taken back or put, and unknown paths below the prefix are problem documents too."""
    assert await problem(await sqlite_client.request(method, path, headers=ALICE)) == expected
