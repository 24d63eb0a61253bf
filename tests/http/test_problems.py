"""Refusals, failures and aiohttp's own refusals become problem documents."""

import sqlite3
from typing import get_args

import psycopg
import pytest
import sqlalchemy.exc
from aiohttp import web

from relay.errors import CODES, Code, FieldProblem, Refusal
from relay.http.problems import problem_response
from tests.http.conftest import Serve
from tests.support.logs import Log
from tests.support.wire import request

SECRET = "token-of-alice-4711"


def raising(error: BaseException) -> web.RouteDef:
    async def handler(_request: web.Request) -> web.Response:
        raise error

    return web.get("/fail", handler)


@pytest.mark.parametrize("code", get_args(Code))
async def test_every_code_is_answered_with_its_status(serve: Serve, code: Code) -> None:
    """Each code becomes a whole problem document with the status that the table fixes."""
    edge = await serve(raising(Refusal(code, "Do otherwise.")))
    answered = await edge.send(request("GET", "/fail"))
    assert answered.code == code
    assert answered.status == CODES[code][0]
    assert answered.json["detail"] == "Do otherwise."


async def test_members_errors_and_headers_are_shown(serve: Serve) -> None:
    """Errors carry pointers, extra members join the document, and headers are set."""
    refusal = Refusal(
        "explicit_target_required",
        "Choose.",
        errors=(FieldProblem("/agent", "Name one."),),
        extra={"targets": [{"agent": "a"}]},
        headers={"Retry-After": "7"},
    )
    answered = await (await serve(raising(refusal))).send(request("GET", "/fail"))
    assert answered.json["errors"] == [{"pointer": "/agent", "detail": "Name one."}]
    assert answered.json["targets"] == [{"agent": "a"}]
    assert answered.headers["retry-after"] == "7"


def test_extra_members_never_replace_those_of_the_rfc() -> None:
    """An extra member named status does not lie about the status."""
    response = problem_response(Refusal("not_found", "Nothing.", extra={"status": 200, "code": "fine"}), instance="/x")
    assert isinstance(response.body, bytes)
    assert b'"status":404' in response.body
    assert b'"code":"not_found"' in response.body
    assert b'"instance":"/x"' in response.body


async def test_a_401_always_carries_a_challenge(serve: Serve) -> None:
    """RFC 9110 section 15.5.2: a 401 without WWW-Authenticate gets the plain one; one with keeps its own."""
    plain = await serve(raising(Refusal("unauthenticated", "Sign in.")))
    assert (await plain.send(request("GET", "/fail"))).headers["www-authenticate"] == "Bearer"
    own = await serve(raising(Refusal("unauthenticated", "Sign in.", headers={"WWW-Authenticate": "Bearer x=y"})))
    assert (await own.send(request("GET", "/fail"))).headers["www-authenticate"] == "Bearer x=y"


async def test_an_unknown_path_is_not_found(serve: Serve) -> None:
    """The 404 of aiohttp becomes ours."""
    edge = await serve()
    assert (await edge.send(request("GET", "/nowhere"))).code == "not_found"


async def test_a_wrong_method_is_told_the_right_ones(serve: Serve) -> None:
    """The 405 of aiohttp becomes ours and keeps Allow."""
    edge = await serve(raising(ValueError()))
    answered = await edge.send(request("DELETE", "/fail"))
    assert answered.code == "method_not_allowed"
    assert answered.headers["allow"] == "GET,HEAD"


async def test_an_unexpected_error_tells_nothing_but_a_reference(serve: Serve, log: Log) -> None:
    """The text of an exception reaches neither the answer nor the log; its type and place reach the log."""
    error = RuntimeError(f"cannot use {SECRET}")
    error.__cause__ = KeyError(SECRET)
    edge = await serve(raising(error))
    answered = await edge.send(request("GET", "/fail"))
    assert answered.code == "internal_error"
    [failed] = log.events("request_failed")
    assert failed["reference"] == answered.json["reference"]
    assert failed["error"] == "RuntimeError"
    assert failed["causes"] == ["KeyError"]
    assert failed["frames"][-1].startswith("tests/http/test_problems.py:")
    assert SECRET not in log.text
    assert SECRET.encode() not in answered.body


async def test_an_http_exception_of_the_server_kind_is_a_failure(serve: Serve) -> None:
    """An aiohttp exception that has no problem of its own is answered as a failure of ours, without its text."""
    answered = await (await serve(raising(web.HTTPBadGateway(text=SECRET)))).send(request("GET", "/fail"))
    assert answered.code == "internal_error"
    assert SECRET.encode() not in answered.body


async def test_a_redirect_is_left_alone(serve: Serve) -> None:
    """A redirection is an answer and no problem."""
    answered = await (await serve(raising(web.HTTPFound("/elsewhere")))).send(request("GET", "/fail"))
    assert answered.status == 302
    assert answered.headers["location"] == "/elsewhere"


def _sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("made up")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "error",
    [
        sqlalchemy.exc.OperationalError("SELECT 1", {}, psycopg.OperationalError("refused")),
        sqlalchemy.exc.OperationalError("SELECT 1", {}, _sqlite_error(sqlite3.SQLITE_BUSY)),
        sqlalchemy.exc.OperationalError("SELECT 1", {}, _sqlite_error(sqlite3.SQLITE_IOERR_READ)),
        sqlalchemy.exc.InterfaceError("SELECT 1", {}, psycopg.InterfaceError("closed")),
        sqlalchemy.exc.TimeoutError("no connection in the pool"),
        psycopg.OperationalError("gone"),
        psycopg.InterfaceError("closed"),
    ],
    ids=lambda error: type(error).__module__ + "." + type(error).__name__,
)
async def test_a_lost_database_is_a_503(serve: Serve, log: Log, error: Exception) -> None:
    """A database that is gone, busy or full is a 503 with Retry-After, whichever layer noticed."""
    answered = await (await serve(raising(error))).send(request("GET", "/fail"))
    assert answered.code == "database_unavailable"
    assert int(answered.headers["retry-after"]) > 0
    assert len(log.events("database_unavailable")) == 1


@pytest.mark.parametrize(
    "error",
    [
        sqlalchemy.exc.OperationalError("SELECT 1 FROM nothing", {}, _sqlite_error(sqlite3.SQLITE_ERROR)),
        sqlalchemy.exc.IntegrityError("INSERT", {}, sqlite3.IntegrityError("unique")),
        psycopg.errors.UndefinedTable("nothing"),
    ],
)
async def test_a_wrong_statement_is_a_failure_of_ours(serve: Serve, error: Exception) -> None:
    """A missing table does not come back by retrying: 500."""
    answered = await (await serve(raising(error))).send(request("GET", "/fail"))
    assert answered.code == "internal_error"


async def test_every_answer_stays_out_of_caches(serve: Serve) -> None:
    """An ordinary answer is marked no-store, unless its handler decided otherwise."""

    async def plain(_request: web.Request) -> web.Response:
        return web.Response(text="x")

    async def cacheable(_request: web.Request) -> web.Response:
        return web.Response(text="x", headers={"Cache-Control": "max-age=60"})

    edge = await serve(web.get("/plain", plain), web.get("/cacheable", cacheable))
    answered = await edge.send(request("GET", "/plain"))
    assert answered.headers["cache-control"] == "no-store"
    assert answered.headers["x-content-type-options"] == "nosniff"
    assert answered.headers["server"] == "feedback-relay"
    assert (await edge.send(request("GET", "/cacheable"))).headers["cache-control"] == "max-age=60"


async def test_a_failure_within_a_begun_answer_closes_the_connection(serve: Serve, log: Log) -> None:
    """When bytes have left, no second answer follows: the connection ends, and the log has the failure."""

    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        raise RuntimeError(SECRET)

    edge = await serve(web.get("/fail", broken))
    # Chunked, and cut off before the last chunk: the connection's end is what ends the reading.
    answered = await edge.send(request("GET", "/fail"))
    assert answered.body == b"4\r\nhalf\r\n"
    [failed] = log.events("request_failed")
    assert failed["error"] == "RuntimeError"
    [line] = log.events("request")
    assert line["status"] == 500
    assert SECRET not in log.text
