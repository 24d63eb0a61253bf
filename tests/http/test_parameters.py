"""Query parameters are typed, known, and given once."""

from typing import Literal

import msgspec
import pytest
from aiohttp import web

from relay.http.parameters import NoParameters, Page, read_query
from tests.http.conftest import Edge, Serve
from tests.support.wire import request


class Query(Page, frozen=True, forbid_unknown_fields=True, rename="camel"):
    state: Literal["pending", "saved"] | None = None
    task_id: str | None = None
    dry_run: bool = False
    offset: int = 0


@pytest.fixture
async def edge(serve: Serve) -> Edge:
    async def listing(request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(read_query(request, Query)))

    async def plain(request: web.Request) -> web.Response:
        return web.Response(body=msgspec.json.encode(read_query(request, NoParameters)))

    return await serve(web.get("/list", listing), web.get("/plain", plain))


DEFAULTS = {"limit": 50, "cursor": None, "state": None, "taskId": None, "dryRun": False, "offset": 0}


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("", {}),
        ("?limit=1", {"limit": 1}),
        ("?limit=100", {"limit": 100}),
        ("?limit=007", {"limit": 7}),
        ("?state=saved&taskId=a%20b", {"state": "saved", "taskId": "a b"}),
        ("?taskId=null", {"taskId": "null"}),
        ("?taskId=5", {"taskId": "5"}),
        ("?taskId=", {"taskId": ""}),
        ("?dryRun=true", {"dryRun": True}),
        ("?offset=-3", {"offset": -3}),
        ("?cursor=abc", {"cursor": "abc"}),
    ],
)
async def test_parameters_are_read(edge: Edge, query: str, read: dict[str, object]) -> None:
    """Each parameter becomes its type; what is not given has its default; texts stay as they are."""
    assert (await edge.send(request("GET", "/list" + query))).json == DEFAULTS | read


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("?limit=0", "limit"),
        ("?limit=101", "limit"),
        ("?limit=-1", "limit"),
        ("?limit=", "limit"),
        ("?limit=ten", "limit"),
        ("?limit=1.0", "limit"),
        ("?limit=1e1", "limit"),
        ("?limit=%2B5", "limit"),
        ("?limit=%C2%B2", "limit"),
        ("?limit=%D9%A3", "limit"),
        ("?limit=null", "limit"),
        ("?limit=" + "9" * 5000, "limit"),
        ("?limit=1&limit=1", "limit"),
        ("?state=SAVED", "state"),
        ("?state=null", "state"),
        ("?state=", "state"),
        ("?dryRun=1", "dryRun"),
        ("?dryRun=null", "dryRun"),
        ("?cursor=", "cursor"),
        ("?unknown=1", "unknown"),
        ("?task_id=1", "task_id"),
        ("?Limit=1", "Limit"),
    ],
)
async def test_an_unacceptable_parameter_is_named(edge: Edge, query: str, name: str) -> None:
    """Out of range, unknown, repeated or of another type: 400 with the parameter's name."""
    answered = await edge.send(request("GET", "/list" + query))
    assert answered.code == "invalid_parameter"
    assert answered.status == 400
    assert answered.json["parameter"] == name
    assert answered.json["detail"].startswith(f"{name}: ")


async def test_words_and_bounds_are_told(edge: Edge) -> None:
    """The detail says which words there are, which parameters, and what the bound is."""
    words = await edge.send(request("GET", "/list?state=lost"))
    assert words.json["detail"] == 'state: Expected one of: "pending", "saved".'
    unknown = await edge.send(request("GET", "/list?x=1"))
    assert "limit, cursor, state, taskId, dryRun, offset" in unknown.json["detail"]
    bound = await edge.send(request("GET", "/list?limit=101"))
    assert "<= 100" in bound.json["detail"]


async def test_a_route_without_parameters_takes_none(edge: Edge) -> None:
    """A parameter is not silently ignored where none is known."""
    assert (await edge.send(request("GET", "/plain"))).json == {}
    assert (await edge.send(request("GET", "/plain?limit=1"))).json["parameter"] == "limit"
