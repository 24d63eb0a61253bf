"""Request bodies: JSON, uncompressed, bounded, strict."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from aiohttp import web

from registry.strict_json import NotStrictJson, Reason, loads
from relay.errors import FieldProblem, Refusal
from relay.http.fields import decode

T = TypeVar("T")
B = TypeVar("B", bytes, bytearray)

ARRIVAL_SECONDS = 30.0
"""How long a body may take to arrive, so that one sent byte by byte holds no handler."""

_BODY = web.RequestKey("body", bytes)
"""The body, once it was read: who verifies a request by its bytes reads them before the handler does."""

_REASONS: Mapping[Reason, str] = {
    "not_utf8": "The body must be UTF-8 without a byte order mark.",
    "syntax": "The body is not JSON (RFC 8259).",
    "duplicate_key": "An object names the same member twice.",
    "nul_character": "A text holds the character U+0000.",
    "lone_surrogate": "A text holds half of a surrogate pair.",
    "not_finite": "NaN and Infinity are not JSON numbers.",
    "number_too_long": "A number has too many digits.",
    "too_deep": "The body is nested too deeply.",
}


async def read_json(request: web.Request, type_: type[T], *, max_bytes: int, seconds: float = ARRIVAL_SECONDS) -> T:
    """The body as ``type_``.

    Refuses with 415 (type or encoding), 413 (more than ``max_bytes``), 408 (not there in ``seconds``), 400
    ``malformed_json``, or 422 ``invalid_field`` with a JSON Pointer for each field at fault.
    """
    _require_json(request)
    return parse(await read_bytes(request, max_bytes=max_bytes, seconds=seconds), type_)


def parse(raw: bytes, type_: type[T]) -> T:
    """JSON text as ``type_``, strictly, with the refusals of `read_json`."""
    try:
        value = loads(raw)
    except NotStrictJson as error:
        raise _malformed(error) from None
    return decode(value, type_)


async def read_bytes(request: web.Request, *, max_bytes: int, seconds: float = ARRIVAL_SECONDS) -> bytes:
    """The body as it came, counted while it is read, so that a chunked one is bounded as well.

    A second reader gets the same bytes, and should name the same bound.
    """
    known: bytes | None = request.get(_BODY)
    if known is None:
        known = request[_BODY] = await _read(request, max_bytes, seconds)
    return known


async def _read(request: web.Request, max_bytes: int, seconds: float) -> bytes:
    _require_identity(request)
    if request.content_length is not None and request.content_length > max_bytes:
        raise _too_large(max_bytes)
    try:
        if request.content.is_eof():  # all of it came with the headers, as it mostly does
            return _bounded(request.content.read_nowait(), max_bytes)
        body = bytearray()
        async with asyncio.timeout(seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                _bounded(body, max_bytes)
    except web.RequestPayloadError:
        raise Refusal("malformed_request", "The body is not framed as its headers say.") from None
    except TimeoutError:
        raise Refusal("request_timeout", "Send the body without pauses.") from None
    return bytes(body)


def _bounded(body: B, max_bytes: int) -> B:
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    return body


def _require_json(request: web.Request) -> None:
    charset = request.charset
    if request.content_type != "application/json" or (charset or "utf-8").lower() not in {"utf-8", "utf8"}:
        raise Refusal(
            "unsupported_media_type",
            "Send the body in UTF-8 with Content-Type: application/json.",
            headers={"Accept": "application/json"},
        )


def _require_identity(request: web.Request) -> None:
    codings = {
        coding.strip().lower() for line in request.headers.getall("Content-Encoding", ()) for coding in line.split(",")
    }
    if codings - {"identity", ""}:
        raise Refusal(
            "unsupported_content_encoding",
            "Send the body without Content-Encoding.",
            headers={"Accept-Encoding": "identity"},  # RFC 9110 section 15.5.16
        )


def _too_large(max_bytes: int) -> Refusal:
    return Refusal("body_too_large", f"A body here may have {max_bytes} bytes.", extra={"maxBytes": max_bytes})


def _malformed(error: NotStrictJson) -> Refusal:
    reason = _REASONS[error.reason]
    errors = () if error.pointer is None else (FieldProblem(error.pointer, reason),)
    return Refusal("malformed_json", reason, errors=errors)
