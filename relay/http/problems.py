"""Refusals and failures as problem documents (RFC 9457)."""

import secrets
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from relay.errors import Code, FieldProblem, Refusal
from relay.redaction import outline
from relay.storage.absence import is_away

CONTENT_TYPE = "application/problem+json"

DATABASE_RETRY_SECONDS = 2

PROBLEM = web.RequestKey("problem", str)
"""The code of the problem a request was answered with, for the line that is logged of it."""

_log = structlog.get_logger("relay.http")

_HEADERS: Mapping[Code, Mapping[str, str]] = {
    # RFC 9110 section 15.5.2: a 401 carries a challenge, whoever raised it.
    "unauthenticated": {"WWW-Authenticate": "Bearer"},
    "database_unavailable": {"Retry-After": str(DATABASE_RETRY_SECONDS)},
}

_ROUTING: Mapping[int, tuple[Code, str]] = {
    HTTPStatus.BAD_REQUEST: ("malformed_request", "The request cannot be understood."),
    HTTPStatus.NOT_FOUND: ("not_found", "No resource of this API has this path; /openapi.json lists them."),
    HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed", "Use one of the methods in the Allow header."),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("body_too_large", "Send a smaller body."),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: ("unsupported_media_type", "Send the body as application/json."),
    HTTPStatus.EXPECTATION_FAILED: ("expectation_failed", "Leave the Expect header out, or send 100-continue."),
}
"""What aiohttp refuses by itself, by status."""

"""SQLite's primary code for a statement that is wrong, as opposed to a database that is busy, full or gone."""


class Problem(msgspec.Struct, frozen=True):
    """A problem document. Branch on ``code``; show ``detail``, which says what to change."""

    type: str
    title: str
    status: int
    detail: str
    code: Code
    instance: str | msgspec.UnsetType = msgspec.UNSET
    errors: tuple[FieldProblem, ...] | msgspec.UnsetType = msgspec.UNSET


def problem_response(refusal: Refusal, *, instance: str | None = None) -> web.Response:
    """The problem document of a refusal, with its headers. Extra members never replace those of the RFC."""
    problem = Problem(
        type=f"urn:feedback-relay:{refusal.code}",
        title=refusal.title,
        status=refusal.status,
        detail=refusal.detail,
        code=refusal.code,
        instance=msgspec.UNSET if instance is None else instance,
        errors=refusal.errors or msgspec.UNSET,
    )
    response = web.Response(
        status=refusal.status,
        body=msgspec.json.encode({**refusal.extra, **msgspec.to_builtins(problem)}),
        content_type=CONTENT_TYPE,
        headers={**_HEADERS.get(refusal.code, {}), **refusal.headers},
    )
    harden(response)
    return response


def harden(response: web.StreamResponse) -> None:
    """Keep an answer out of caches and from being read as another type, where its handler did not decide otherwise.

    And keep the versions of Python and aiohttp to ourselves.
    """
    headers = response.headers
    headers.setdefault("Cache-Control", "no-store")
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Server", "feedback-relay")


def failure(error: Exception) -> Refusal:
    """The 500 for an error that nobody expected.

    Its reference joins the answer to the log, which holds no more of the error than `relay.redaction.outline` allows.
    """
    reference = secrets.token_hex(8)
    _log.error("request_failed", reference=reference, **outline(error))
    detail = "This is a fault of the relay. Quote the reference when you report it."
    return Refusal("internal_error", detail, extra={"reference": reference})


def refusal_of(error: Exception) -> Refusal:
    """The refusal that answers an exception, whichever it is."""
    match error:
        case Refusal():
            return error
        case web.HTTPException() if error.status in _ROUTING:
            code, detail = _ROUTING[error.status]
            allow = error.headers.get("Allow")
            return Refusal(code, detail, headers={} if allow is None else {"Allow": allow})
        case _ if is_away(error):
            _log.warning("database_unavailable", **outline(error))
            return Refusal("database_unavailable", "Nothing was stored. Send the same request again.")
        case _:
            return failure(error)


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every exception with a problem document, and keep every answer out of caches."""
    try:
        response = await handler(request)
    except web.HTTPRedirection:
        raise
    except Exception as error:  # noqa: BLE001 - the last place where an error can still become an answer
        if _is_under_way(request):
            _abandon(request, error)
        refusal = refusal_of(error)
        request[PROBLEM] = refusal.code
        return problem_response(refusal)
    if not response.prepared:
        harden(response)
    return response


def _is_under_way(request: web.Request) -> bool:
    return request.transport is None or request.writer.output_size > 0


def _abandon(request: web.Request, error: Exception) -> None:
    """No status can be sent any more: log what is not merely a client that left, and have the connection closed."""
    if not isinstance(error, ConnectionError):
        request[PROBLEM] = failure(error).code
    raise ConnectionResetError("the answer had begun") from None
