"""Forms: taken only from a page of this relay, in the session that the page was made for."""

import hmac
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import hdrs, web
from multidict import MultiDict, MultiDictProxy

from relay.errors import Refusal
from relay.http.bodies import read_bytes
from relay.http.limits import MAX_BODY_BYTES
from relay.web.console.sessions.model import csrf_token

TYPE: Final = "application/x-www-form-urlencoded"
FIELD: Final = "csrf"
_MOST_FIELDS: Final = 200


async def form_of(request: web.Request, secret: str, *, origin: str) -> MultiDictProxy[str]:
    """The fields of a form that posts to us. Raises `Refusal` (403 ``cross_site_request``, 400, 413, 415).

    Where the browser says from which page it comes, it has to be one of ``origin``; in any case it has to hold the
    token of the session, which no other site can read.
    """
    if not _is_ours(request, origin):
        raise _not_ours()
    if request.content_type != TYPE:
        raise Refusal("unsupported_media_type", f"Send the form as {TYPE}.", headers={hdrs.ACCEPT: TYPE})
    form = _parsed(await read_bytes(request, max_bytes=request.app[MAX_BODY_BYTES]))
    tokens = form.getall(FIELD, [])
    if len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode(), csrf_token(secret).encode()):
        raise _not_ours()
    return MultiDictProxy(form)


def _is_ours(request: web.Request, origin: str) -> bool:
    said = request.headers.getall(hdrs.ORIGIN, [origin])
    site = request.headers.getall("Sec-Fetch-Site", ["same-origin"])
    return said == [origin] and site == ["same-origin"]


def _parsed(body: bytes) -> MultiDict[str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError:
        raise Refusal("malformed_request", "The body is no form.") from None
    if any("\0" in name or "\0" in value for name, value in pairs):
        raise Refusal("malformed_request", "A field holds the character U+0000.")
    return MultiDict(pairs)


def _not_ours() -> Refusal:
    return Refusal(
        "cross_site_request", "Nothing was done. Open the page again, in the same browser, and send its form."
    )
