"""Bodies: the right type, uncompressed, bounded, strict JSON, and the fields that were agreed."""

import gzip
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import Refusal
from relay.http.bodies import parse, read_bytes, read_json
from relay.http.fields import MAX_PROBLEMS, decode, pointer
from tests.http.conftest import Edge, Serve
from tests.support.wire import Answered, connected, read_answer, request

MAX_BYTES = 4096
JSON = "Content-Type: application/json"
SECRET = "token-of-alice-4711"


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=8)]


class Rating(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    task_id: Annotated[str, msgspec.Meta(min_length=1)]
    rating: Literal["up", "down"]
    comment: str | None = None
    evidence: list[Evidence] = []
    mark: Literal["a", "b"] | None = None
    counts: dict[str, int] = {}

    def __post_init__(self) -> None:
        if self.comment == "":
            raise ValueError("A comment may not be empty.")


@pytest.fixture
async def edge(serve: Serve) -> Edge:
    async def handler(request: web.Request) -> web.Response:
        rating = await read_json(request, Rating, max_bytes=MAX_BYTES)
        return web.Response(body=msgspec.json.encode(rating))

    return await serve(web.post("/ratings", handler))


async def post(edge: Edge, body: bytes, *headers: str) -> Answered:
    return await edge.send(request("POST", "/ratings", *(headers or (JSON,)), body=body))


GOOD = b'{"taskId":"t","rating":"up"}'


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'Application/JSON;charset="UTF-8"',
        "application/json; charset=utf8",
    ],
)
async def test_json_in_utf8_is_read(edge: Edge, content_type: str) -> None:
    """The media type counts without regard to case, and the charset may be named when it is UTF-8."""
    answered = await post(edge, GOOD, f"Content-Type: {content_type}")
    assert answered.json["taskId"] == "t"


@pytest.mark.parametrize(
    "header",
    [
        "Content-Type: text/plain",
        "Content-Type: application/json; charset=latin-1",
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: application/problem+json",
        "Content-Type: json",
        "Content-Type:",
        "X-Nothing: at all",
    ],
)
async def test_another_media_type_is_refused(edge: Edge, header: str) -> None:
    """What is not declared as JSON in UTF-8 is a 415 that says what to send."""
    answered = await post(edge, GOOD, header)
    assert answered.code == "unsupported_media_type"
    assert answered.headers["accept"] == "application/json"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip", "GZIP", "unknown"])
async def test_a_coded_body_is_refused(edge: Edge, coding: str) -> None:
    """Any Content-Encoding but identity is a 415, and nothing is decompressed."""
    answered = await post(edge, gzip.compress(GOOD), JSON, f"Content-Encoding: {coding}")
    assert answered.code == "unsupported_content_encoding"
    assert answered.headers["accept-encoding"] == "identity"


async def test_a_broken_coded_body_is_refused_the_same_way(edge: Edge) -> None:
    """A body that only claims to be gzip is a 415 and no 500."""
    answered = await post(edge, b"no gzip at all", JSON, "Content-Encoding: gzip")
    assert answered.code == "unsupported_content_encoding"


async def test_identity_is_no_coding(edge: Edge) -> None:
    """Content-Encoding: identity says nothing and is let through."""
    assert (await post(edge, GOOD, JSON, "Content-Encoding: identity")).status == 200


async def test_a_body_can_be_read_twice(serve: Serve) -> None:
    """Who needs the bytes before the handler does takes nothing away from it."""

    async def handler(request: web.Request) -> web.Response:
        raw = await read_bytes(request, max_bytes=MAX_BYTES)
        await read_json(request, Rating, max_bytes=MAX_BYTES)
        return web.Response(body=raw)

    edge = await serve(web.post("/ratings", handler))
    assert (await post(edge, GOOD)).body == GOOD


def _padded(size: int) -> bytes:
    return GOOD + b" " * (size - len(GOOD))


async def test_the_cap_is_exact(edge: Edge) -> None:
    """A body of exactly the cap is read; one byte more is a 413 that names the cap."""
    assert (await post(edge, _padded(MAX_BYTES))).status == 200
    answered = await post(edge, _padded(MAX_BYTES + 1))
    assert answered.code == "body_too_large"
    assert answered.json["maxBytes"] == MAX_BYTES


async def test_a_chunked_body_is_counted_as_well(edge: Edge) -> None:
    """Without a Content-Length the cap holds while the body is read, before its end has come."""
    head = f"POST /ratings HTTP/1.1\r\nHost: x\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunk = b"%x\r\n%s\r\n" % (1024, b" " * 1024)
    async with connected(edge.port) as (reader, writer):
        writer.write(head + chunk * 5)  # and no end
        assert (await read_answer(reader)).code == "body_too_large"


async def test_a_body_that_never_ends_is_given_up(serve: Serve) -> None:
    """A body that does not arrive in time is a 408."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(repr(await read_json(request, Rating, max_bytes=MAX_BYTES, seconds=0.0)))

    edge = await serve(web.post("/ratings", handler))
    async with connected(edge.port) as (reader, writer):
        writer.write(f"POST /ratings HTTP/1.1\r\nHost: x\r\n{JSON}\r\nContent-Length: 30\r\n\r\n{{".encode())
        assert (await read_answer(reader)).code == "request_timeout"


@pytest.mark.parametrize(
    ("body", "at"),
    [
        (b"", None),
        (b"{", None),
        (b"{'taskId': 't'}", None),
        (b'{"taskId":"t","rating":"up"} x', None),
        (b"\xff\xfe{}", None),
        (b"\xef\xbb\xbf" + GOOD, None),
        (b'{"taskId":"t","rating":"up","taskId":"u"}', "/taskId"),
        (b'{"taskId":"t","rating":"up","evidence":[{"id":"a","id":"b"}]}', "/evidence/0/id"),
        (b'{"taskId":"a\\u0000b","rating":"up"}', "/taskId"),
        (b'{"taskId":"\\ud800","rating":"up"}', "/taskId"),
        (b'{"taskId":NaN,"rating":"up"}', None),
        (b'{"taskId":1e999,"rating":"up"}', None),
        (b"[" * 100_000, None),
        (b'{"a":' * 500 + b"1" + b"}" * 500, None),
        (b'{"counts":{"a":' + b"9" * 4001 + b"}}", None),
    ],
)
async def test_what_is_not_strict_json_is_refused(serve: Serve, body: bytes, at: str | None) -> None:
    """Two readers could understand these differently: 400, with the place where it is known."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(repr(await read_json(request, Rating, max_bytes=1_000_000)))

    edge = await serve(web.post("/ratings", handler))
    answered = await post(edge, body)
    if b"999999" in body:  # a long number is JSON; that it is too long is for the field to say
        assert answered.code in {"malformed_json", "invalid_field"}
        return
    assert answered.code == "malformed_json"
    assert answered.json.get("errors", [{"pointer": None}])[0]["pointer"] == at


PROBLEMS: dict[str, tuple[Any, list[str]]] = {
    "missing": ({}, ["/taskId", "/rating"]),
    "wrong type": ({"taskId": 1, "rating": "up"}, ["/taskId"]),
    "too short": ({"taskId": "", "rating": "up"}, ["/taskId"]),
    "unknown": ({"taskId": "t", "rating": "up", "owner": SECRET, "userId": SECRET}, ["/owner", "/userId"]),
    "unknown word": ({"taskId": "t", "rating": SECRET}, ["/rating"]),
    "upper case": ({"taskId": "t", "rating": "UP"}, ["/rating"]),
    "true": ({"taskId": "t", "rating": True}, ["/rating"]),
    "null": ({"taskId": "t", "rating": None}, ["/rating"]),
    "optional word": ({"taskId": "t", "rating": "up", "mark": SECRET}, ["/mark"]),
    "several": ({"taskId": 1, "rating": SECRET, "comment": 3}, ["/taskId", "/rating", "/comment"]),
    "within": (
        {"taskId": "t", "rating": "up", "evidence": [{"kind": "a", "id": "1"}, {"kind": 1, "id": SECRET}, SECRET]},
        ["/evidence/1/kind", "/evidence/1/id", "/evidence/2"],
    ),
    "odd names": (
        {"taskId": "t", "rating": "up", "evidence": [{"kind": "a", "id": "1", "a/b~c.`d` - at `$.x": 1}]},
        ["/evidence/0/a~1b~0c.`d` - at `$.x"],
    ),
    "a long name": ({"taskId": "t", "rating": "up", "x" * 101: 1}, [""]),
    "a mapping": ({"taskId": "t", "rating": "up", "counts": {"a": SECRET}}, ["/counts"]),
    "a list": ([], [""]),
    "a text": (SECRET, [""]),
    "nothing": (None, [""]),
    "a rule of the whole": ({"taskId": "t", "rating": "up", "comment": ""}, [""]),
}


@pytest.mark.parametrize(("value", "pointers"), PROBLEMS.values(), ids=PROBLEMS.keys())
async def test_every_field_at_fault_is_named(edge: Edge, value: object, pointers: list[str]) -> None:
    """A 422 lists each field by its JSON Pointer, says what is expected, and repeats no value."""
    answered = await post(edge, json.dumps(value).encode())
    assert answered.code == "invalid_field"
    assert [error["pointer"] for error in answered.json["errors"]] == pointers
    assert all(error["detail"] for error in answered.json["errors"])
    assert SECRET.encode() not in answered.body


async def test_the_words_that_are_allowed_are_listed(edge: Edge) -> None:
    """A caller with a wrong word is told the right ones."""
    answered = await post(edge, b'{"taskId":"t","rating":"thumbup"}')
    assert answered.json["errors"][0]["detail"] == 'Expected one of: "up", "down".'


def test_the_number_of_problems_is_bounded() -> None:
    """A body that is wrong everywhere does not make an endless answer."""
    with pytest.raises(Refusal) as caught:
        decode({f"field{number}": 1 for number in range(500)}, Rating)
    assert len(caught.value.errors) == MAX_PROBLEMS


def test_the_tag_of_a_union_is_no_unknown_field() -> None:
    """Members of a tagged union are decoded by their tag, and an unknown tag is a problem."""

    class Up(msgspec.Struct, tag="up", tag_field="kind", forbid_unknown_fields=True):
        count: int

    class Down(msgspec.Struct, tag="down", tag_field="kind", forbid_unknown_fields=True):
        count: int

    union: Any = Up | Down
    assert decode({"kind": "down", "count": 1}, union) == Down(1)
    with pytest.raises(Refusal) as caught:
        decode({"kind": SECRET, "count": 1}, union)
    assert caught.value.errors[0].pointer == "/kind"
    assert SECRET not in caught.value.errors[0].detail
    with pytest.raises(Refusal) as caught:
        decode({"kind": "up", "count": "x"}, Up)
    assert [error.pointer for error in caught.value.errors] == ["/count"]


def test_pointers_are_escaped() -> None:
    """RFC 6901 section 3: a tilde is ~0 and a slash is ~1."""
    assert pointer("a/b", 0, "m~n", "") == "/a~1b/0/m~0n/"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["taskId", "rating", "id", "kind", "x"]), inner),
    max_leaves=20,
)
RATINGS = st.fixed_dictionaries(
    {"taskId": st.text() | JSON_VALUES, "rating": st.sampled_from(["up", "down"]) | JSON_VALUES},
    optional={
        "comment": st.text() | JSON_VALUES,
        "evidence": st.lists(st.fixed_dictionaries({"kind": st.text(), "id": st.text()}) | JSON_VALUES),
        "counts": JSON_VALUES,
    },
)


def _leads_into(value: object, path: str) -> bool:
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return False
    return True


@given(RATINGS | JSON_VALUES)
def test_a_value_is_decoded_or_refused_at_a_place_that_exists(value: object) -> None:
    """Whatever JSON comes, the only error is a refusal, and each of its pointers leads into the value.

    Except to a required field that is missing, whose parent exists.
    """
    refusal = _refusal(lambda: decode(value, Rating))
    if refusal is None:
        assert isinstance(value, dict)
        assert value.keys() <= {"taskId", "rating", "comment", "evidence", "mark", "counts"}
        return
    assert refusal.code == "invalid_field"
    assert refusal.errors
    for error in refusal.errors:
        parent = error.pointer.rpartition("/")[0] if error.detail == "This field is required." else error.pointer
        assert _leads_into(value, parent)


def _refusal(action: Callable[[], Rating]) -> Refusal | None:
    try:
        action()
    except Refusal as refusal:
        return refusal
    return None


@given(st.binary(max_size=200) | JSON_VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_answered(raw: bytes) -> None:
    """No body whatever makes reading it fail in another way than by a refusal."""
    refusal = _refusal(lambda: parse(raw, Rating))
    assert refusal is None or refusal.code in {"malformed_json", "invalid_field"}
