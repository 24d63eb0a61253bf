"""How `registry.protocols.roblox_v1` speaks, and what it believes."""

import json
from dataclasses import replace
from typing import Any, assert_never, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.protocols.catalog import ADAPTERS
from registry.protocols.contract import (
    Acknowledged,
    Answer,
    Collision,
    Found,
    NotFound,
    OutboundRequest,
    Rated,
    Rating,
    ReadBack,
    Refused,
    Resolution,
    TryLater,
    Unauthorized,
    Verdict,
)
from registry.protocols.roblox_v1 import FINAL, RobloxV1

ROBLOX = RobloxV1()
ID = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a001"
OTHER = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a002"
SAVED = f'{{"id":"{ID}","saved":true}}'.encode()
SENT = Rated(ID, "run-7", "up", "très bien 👍")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def rows(*found: object) -> Answer:
    return answer(200, json.dumps(found).encode())


def row(**changes: object) -> dict[str, object]:
    return {"id": ID, "taskId": "run-7", "rating": "up", "comment": "très bien 👍", **changes}


def test_the_catalogue_lists_it():
    """The name with a hyphen, as configuration has it, leads to the adapter."""
    assert isinstance(ADAPTERS["roblox-v1"], RobloxV1)
    assert all(name == adapter.name for name, adapter in ADAPTERS.items())


@pytest.mark.parametrize(
    ("rated", "body"),
    [
        (SENT, f'{{"id":"{ID}","taskId":"run-7","rating":"up","comment":"très bien 👍"}}'),
        (Rated(ID, "run-7", "down", None), f'{{"id":"{ID}","taskId":"run-7","rating":"down"}}'),
        (Rated(ID, "run-7", "up", ""), f'{{"id":"{ID}","taskId":"run-7","rating":"up"}}'),
        (
            Rated(ID, 'a"/é', "up", "l\n\u2028"),
            f'{{"id":"{ID}","taskId":"a\\"/é","rating":"up","comment":"l\\n\u2028"}}',
        ),
    ],
)
def test_encodes_exactly(rated: Rated, body: str):
    """The request is the protocol's, byte for byte: order, no spaces, UTF-8, no comment where there is none."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": ID}
    assert ROBLOX.encode(rated) == OutboundRequest("POST", "/api/feedback", headers, body.encode())


@given(TEXT, st.sampled_from(get_args(Rating)), TEXT | st.none())
def test_a_stored_body_is_sent_as_it_is(task: str, rating: Rating, comment: str | None):
    """A request made again from what was stored is the first request, and it says what was rated."""
    first = ROBLOX.encode(Rated(ID, task, rating, comment))
    assert first.body is not None
    assert ROBLOX.request_for(ID, first.body) == first
    members = {"id": ID, "taskId": task, "rating": rating} | ({"comment": comment} if comment else {})
    assert json.loads(first.body) == members


@pytest.mark.parametrize(
    "body",
    [
        SAVED,
        f' {{"saved": true, "at": 1.5, "id": "{ID}", "more": [null]}}\n'.encode(),
        f'{{"id":"{ID.upper()}","saved":true}}'.encode(),
    ],
)
def test_acknowledged(body: bytes):
    """Only the id and `saved: true` matter; a UUID in capitals is the same UUID."""
    assert ROBLOX.interpret(answer(201, body), ID) == Acknowledged()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty_acknowledgement"),
        (b"<html>created</html>", "not_json"),
        (b"\xff", "not_utf8"),
        (SAVED[:-1], "not_json"),
        (SAVED + SAVED, "not_json"),
        (b"\xef\xbb\xbf" + SAVED, "not_json"),
        (b"null", "unmatched_acknowledgement"),
        (b"[" + SAVED + b"]", "unmatched_acknowledgement"),
        (b"true", "unmatched_acknowledgement"),
        (b'{"saved":true}', "unmatched_acknowledgement"),
        (b'{"id":null,"saved":true}', "unmatched_acknowledgement"),
        (f'{{"id":["{ID}"],"saved":true}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{OTHER}","saved":true}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID.replace("-", "")}","saved":true}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{{{ID}}}","saved":true}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":" {ID}","saved":true}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}"}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}","saved":1}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}","saved":"true"}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}","saved":false}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}","saved":[true]}}'.encode(), "unmatched_acknowledgement"),
        (f'{{"id":"{ID}","saved":true,"saved":true}}'.encode(), "duplicate_keys"),
        (f'{{"id":"{OTHER}","id":"{ID}","saved":true}}'.encode(), "duplicate_keys"),
        (f'{{"id":"{ID}","saved":true,"x":{{"y":1,"y":1}}}}'.encode(), "duplicate_keys"),
        (f'{{"id":"{ID}","saved":true,"x":"\\u0000"}}'.encode(), "nul_character"),
        (f'{{"id":"{ID}","saved":true,"x":"\\ud800"}}'.encode(), "lone_surrogate"),
        (f'{{"id":"{ID}","saved":true,"x":NaN}}'.encode(), "not_finite"),
        (b"[" * 50_000, "too_deep"),
    ],
)
def test_a_doubtful_201_is_not_saved(body: bytes, reason: str):
    """A 201 whose body is not this acknowledgement goes back to the schedule and says why."""
    assert ROBLOX.interpret(answer(201, body), ID) == TryLater(reason)


def test_a_cut_off_201_is_not_saved():
    """A body cut off at the size cap proves nothing, even where what came reads as an acknowledgement."""
    assert ROBLOX.interpret(replace(answer(201, SAVED), complete=False), ID) == TryLater("truncated_acknowledgement")


def reason_for(status: int) -> str:
    named = {408: "request_timeout", 425: "too_early", 429: "rate_limited"}
    return named.get(status) or {2: "not_created", 3: "redirect", 5: "server_error"}.get(
        status // 100, "unexpected_status"
    )


def expected(status: int) -> Verdict:
    match status:
        case 201:
            return Acknowledged()
        case 400 | 403 | 405 | 410 | 413 | 414 | 415 | 422:
            return Refused(FINAL[status])
        case 401:
            return Unauthorized()
        case 404:
            return NotFound()
        case 409:
            return Collision()
        case _:
            return TryLater(reason_for(status))


def test_every_status():
    """Each status has its verdict, and a perfect acknowledgement changes none but 201's."""
    statuses = range(100, 1000)
    assert {s: ROBLOX.interpret(answer(s, SAVED), ID) for s in statuses} == {s: expected(s) for s in statuses}


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (b'{"code":"task_not_finished","status":409}', TryLater("task_not_finished")),
        (b'{"error":"task_not_finished"}', TryLater("task_not_finished")),
        (b'{"error":"conflict","code":"task_not_finished"}', TryLater("task_not_finished")),
        (b'{"code":"uuid_reused"}', Collision()),
        (b'{"detail":"task_not_finished"}', Collision()),
        (b'{"code":["task_not_finished"]}', Collision()),
        (b'{"code":"uuid_reused","code":"task_not_finished"}', Collision()),
        (b'"task_not_finished"', Collision()),
        (b"task_not_finished", Collision()),
        (b"", Collision()),
    ],
)
def test_a_409_is_read(body: bytes, verdict: Verdict):
    """Only a code that says so makes a 409 a running task; everything else is to be read back."""
    assert ROBLOX.interpret(answer(409, body), ID) == verdict


@given(
    st.integers(100, 599),
    st.binary(max_size=40)
    | st.fixed_dictionaries(
        {},
        optional={
            "id": st.sampled_from([ID, OTHER, 1, None]),
            "saved": st.sampled_from([True, False, 1, "true", None]),
        },
    ).map(lambda value: json.dumps(value).encode()),
    st.booleans(),
)
def test_nothing_else_is_ever_saved(status: int, body: bytes, complete: bool):  # noqa: FBT001 - drawn
    """Whatever comes back has one of the verdicts, and only the one exact match is an acknowledgement."""
    verdict = ROBLOX.interpret(Answer(status, {}, body, complete), ID)
    match verdict:
        case Acknowledged():
            assert (status, complete, json.loads(body)) == (201, True, {"id": ID, "saved": True})
            assert json.loads(body)["saved"] is True
        case Refused():
            assert status in FINAL
        case Unauthorized() | NotFound() | Collision() | TryLater():
            pass
        case _:
            assert_never(verdict)


def test_no_comment_in_a_repr():
    """What a person wrote, and what a specialist answered, stays out of logs that show these objects."""
    for shown in (SENT, ROBLOX.encode(SENT), rows(row())):
        assert "bien" not in repr(shown)


def test_reading_back_asks_for_the_list():
    """The list comes from the same path and may be longer than an acknowledgement."""
    assert ROBLOX.read_back() == OutboundRequest("GET", "/api/feedback", {}, None, 2 * 1024 * 1024)


OLDER = [row(id=f"0b8f1f0e-0b0e-4a44-9c7e-0000000000{n:02}") for n in range(100)]

FOUND: list[tuple[str, list[Any], ReadBack]] = [
    ("the same", [row()], "same"),
    ("more members", [row(owner="o", resolution=None, createdAt="2026-01-01T00:00:00Z")], "same"),
    ("id in capitals", [row(id=ID.upper())], "same"),
    ("last of many", [*OLDER[:99], row()], "same"),
    ("more than the window", [*OLDER, row()], "same"),
    ("other rating", [row(rating="down")], "different"),
    ("other task", [row(taskId="run-8")], "different"),
    ("other comment", [row(comment="très bien")], "different"),
    ("comment gone", [row(comment=None)], "different"),
    ("other spelling of the same comment", [row(comment="tre\u0300s bien 👍")], "different"),
    ("no rows", [], "absent"),
    ("99 others", OLDER[:99], "absent"),
    ("100 others", OLDER, "out_of_window"),
    ("101 others", [*OLDER, row(id=OTHER)], "out_of_window"),
    ("task missing", [{"id": ID, "rating": "up"}], "unreadable"),
    ("rating not text", [row(rating=True)], "unreadable"),
    ("comment not text", [row(comment=0)], "unreadable"),
    ("other row without an id", [{"taskId": "run-7"}], "unreadable"),
    ("other row not an object", ["x"], "unreadable"),
    ("other row unreadable, ours there", [None, {"id": 5}, row()], "same"),
    ("twice, once the same", [row(rating="down"), row()], "same"),
    ("twice, once unreadable", [row(rating="down"), row(rating=1)], "unreadable"),
]


@pytest.mark.parametrize(("found", "verdict"), [case[1:] for case in FOUND], ids=[case[0] for case in FOUND])
def test_finds(found: list[object], verdict: ReadBack):
    """The row with the id decides; where it is missing, so does whether the list could have shown it."""
    assert ROBLOX.find(rows(*found), SENT) == verdict
    assert ROBLOX.find(answer(200, json.dumps({"items": found, "total": 7}).encode()), SENT) == verdict


@pytest.mark.parametrize("listed", [None, ""])
@pytest.mark.parametrize("sent", [None, ""])
def test_no_comment_has_three_spellings(listed: str | None, sent: str | None):
    """Absent, null and empty all mean that there is none."""
    without = row()
    del without["comment"]
    for shown in (without, row(comment=listed)):
        assert ROBLOX.find(rows(shown), replace(SENT, comment=sent)) == "same"


@pytest.mark.parametrize(
    "unreadable",
    [
        answer(201, b"[]"),
        answer(206, b"[]"),
        answer(404, b"[]"),
        answer(500, b"[]"),
        answer(200, b""),
        answer(200, b"<html>"),
        answer(200, b"null"),
        answer(200, b"{}"),
        answer(200, b'{"a":[],"b":[]}'),
        answer(200, b'[{"id":"x","id":"y"}]'),
        Answer(200, {}, b"[]", complete=False),
    ],
)
def test_an_unreadable_list_proves_nothing(unreadable: Answer):
    """Neither a failure nor a list that is cut off or ambiguous says that a rating is absent."""
    assert ROBLOX.find(unreadable, SENT) == "unreadable"


RESOLUTIONS: list[tuple[str, dict[str, Any], Resolution | None]] = [
    ("text", {"resolution": "fixed"}, Resolution("fixed")),
    ("null", {"resolution": None}, Resolution(None)),
    ("empty", {"resolution": ""}, Resolution(None)),
    ("as long as may be", {"resolution": "😀" * 500}, Resolution("😀" * 500)),
    ("too long", {"resolution": "😀" * 500 + "x"}, None),
    ("line break", {"resolution": "a\nb"}, None),
    ("C1 control", {"resolution": "a\x9bb"}, None),
    ("number", {"resolution": 1}, None),
    ("object", {"resolution": {}}, None),
    ("absent", {}, None),
]


@pytest.mark.parametrize(("members", "resolution"), [c[1:] for c in RESOLUTIONS], ids=[c[0] for c in RESOLUTIONS])
def test_a_resolution_is_a_short_text_or_null(members: dict[str, Any], resolution: Resolution | None):
    """Whatever else stands there is passed over, and the row counts all the same."""
    assert ROBLOX.find_all(rows(row(**members)), [SENT]) == [Found("same", resolution)]


def test_one_list_answers_for_many():
    """Each submission has its own answer, in order; the resolution of a row with other content is nobody's."""
    other, third = replace(SENT, id=OTHER), replace(SENT, id=OTHER.replace("7", "8"))
    answer = rows(row(resolution="fixed"), row(id=OTHER, rating="down", resolution="fixed"))
    assert ROBLOX.find_all(answer, [third, other, SENT]) == [
        Found("absent"),
        Found("different"),
        Found("same", Resolution("fixed")),
    ]
    assert "fixed" not in repr(ROBLOX.find_all(answer, [SENT]))
    assert ROBLOX.find_all(answer, []) == []
