"""What is refused before a route looks at a request: targets that two parsers read differently, misplaced tokens."""

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web
from aiohttp.typedefs import Handler

from relay.errors import Refusal

_BROKEN_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_TOKEN_PARAMETERS = frozenset({"access_token", "token", "bearer", "authorization"})


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse with 400 what no route should have to think about."""
    check(request)
    return await handler(request)


def check(request: web.BaseRequest) -> None:
    """Raise `Refusal` for an ambiguous target, a token in the query, or more than one Authorization header."""
    _check_target(request.raw_path)
    if request.query_string:
        _check_query(request)
    if len(request.headers.getall("Authorization", ())) > 1:
        raise Refusal("malformed_request", "Send one Authorization header.")


def _check_target(target: str) -> None:
    """Every escape valid, the bytes UTF-8, none of them NUL.

    aiohttp leaves an escape that it cannot decode as literal text, so that ``%FF`` and ``%25FF`` would name the same
    task. Dots and slashes in a segment are data: nothing here or in the router removes them.
    """
    if "#" in target or not target.isascii():  # RFC 9112 section 3.2: a target has no fragment
        raise Refusal("malformed_request", "Percent-encode the path and the query (RFC 3986).")
    if "%" not in target:
        return
    if _BROKEN_ESCAPE.search(target):
        raise Refusal("malformed_request", "A percent sign in the path or the query must begin an escape such as %25.")
    try:
        decoded = unquote_to_bytes(target).decode()
    except UnicodeDecodeError:
        raise Refusal("malformed_request", "The path and the query must be UTF-8, percent-encoded.") from None
    if "\x00" in decoded:
        raise Refusal("malformed_request", "The path and the query must not hold the character U+0000.")


def _check_query(request: web.BaseRequest) -> None:
    """RFC 6750 section 2.3 warns of tokens in targets, which proxies log and browsers keep; RFC 9700 forbids them."""
    if any(name.lower() in _TOKEN_PARAMETERS for name in request.query):
        raise Refusal("malformed_request", "Send the token in the Authorization header, never in the query.")
