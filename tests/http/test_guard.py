"""What no route should have to think about is refused before it."""

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from relay.http.guard import _check_target
from relay.http.parameters import segment
from tests.http.conftest import Serve
from tests.support.logs import Log
from tests.support.wire import request


async def show(request: web.Request) -> web.Response:
    return web.json_response([request.match_info["id"], dict(request.query)])


ROUTE = web.get(f"/tasks/{segment('id')}", show)


@pytest.mark.parametrize(
    "target",
    [
        "/tasks/%FF",
        "/tasks/%C3",
        "/tasks/%C3%28",
        "/tasks/%ED%A0%80",
        "/tasks/%",
        "/tasks/a%2",
        "/tasks/%zz",
        "/tasks/%00",
        "/tasks/a#b",
        "/tasks/a?x=%",
        "/tasks/a?x=%FF",
        "/tasks/a?x=%00",
        "/tasks/a?%C0%AF=x",
        "/nowhere/%FF",
    ],
)
async def test_an_ambiguous_target_is_refused(serve: Serve, target: str) -> None:
    """Broken escapes, bytes that are not UTF-8, NUL and fragments are 400, on unknown paths as well."""
    answered = await (await serve(ROUTE)).send(request("GET", target))
    assert answered.code == "malformed_request"
    assert answered.status == 400


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/tasks/%25FF", "%FF"),
        ("/tasks/%2525FF", "%25FF"),
        ("/tasks/a%2Fb", "a/b"),
        ("/tasks/..", ".."),
        ("/tasks/%2E%2E", ".."),
        ("/tasks/%2e", "."),
        ("/tasks/a%3Fb", "a?b"),
        ("/tasks/a%23b", "a#b"),
        ("/tasks/a;b=c", "a;b=c"),
        ("/tasks/%7Ba%7D", "{a}"),
        ("/tasks/{a}", "{a}"),
        ("/tasks/a+b", "a+b"),
        ("/tasks/%F0%9F%98%80", "😀"),
        ("/tasks/e%CC%81", "e\u0301"),
    ],
)
async def test_an_id_in_the_path_arrives_as_it_was_meant(serve: Serve, target: str, name: str) -> None:
    """Dots, slashes and braces are data, each id decoded exactly once and never normalised."""
    assert (await (await serve(ROUTE)).send(request("GET", target))).json == [name, {}]


@pytest.mark.parametrize("name", ["access_token", "token", "Access_Token", "access%5Ftoken", "bearer"])
async def test_a_token_in_the_query_is_refused(serve: Serve, log: Log, name: str) -> None:
    """RFC 6750 section 2.3 is not supported, however the name is spelt, and the token is not repeated anywhere."""
    answered = await (await serve(ROUTE)).send(request("GET", f"/tasks/a?limit=1&{name}=alices-token"))
    assert answered.code == "malformed_request"
    assert b"alices-token" not in answered.body
    assert "alices-token" not in log.text


async def test_two_authorization_headers_are_refused(serve: Serve) -> None:
    """Which of two tokens counts is not ours to choose."""
    edge = await serve(ROUTE)
    answered = await edge.send(request("GET", "/tasks/a", "Authorization: Bearer a", "authorization: Bearer a"))
    assert answered.code == "malformed_request"
    assert (await edge.send(request("GET", "/tasks/a", "Authorization: Bearer a"))).status == 200


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=50))
def test_every_encoded_text_passes(text: str) -> None:
    """No id that is encoded as RFC 3986 says is refused."""
    _check_target("/tasks/" + "".join(f"%{byte:02X}" for byte in text.encode()))
