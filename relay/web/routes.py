"""``/ui/…``: files for any page, which carry nothing of anybody."""

from collections.abc import Mapping
from typing import Annotated, Final

from aiohttp import ETag, hdrs, web
from msgspec import Meta

from relay.errors import Refusal
from relay.http.operations import Answer, Operation, described
from relay.web.module import File, Module

WIDGET: Final = web.AppKey("widget", Module)

_REVALIDATED: Final = "no-cache"
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_FOR_ANY_PAGE: Final[Mapping[str, str]] = {
    # A script with an integrity hash is fetched with CORS. There are no origins to choose from: the file is the same
    # for everybody, and what it then asks the API for is subject to the configured ones.
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Vary": "Accept-Encoding",
}

Digest = Annotated[str, Meta(description="Of the file, from the hash of its bytes.", pattern="^[0-9a-f]{16}$")]

_SCRIPT: Final = Answer("The ES module.", media_types=("text/javascript",))
_UNCHANGED: Final = Answer("As the caller has it already (`If-None-Match`).", media_types=())

NEWEST: Final = Operation(tag="widget", query=None, database=False, answers={200: _SCRIPT, 304: _UNCHANGED})
VERSIONED: Final = Operation(
    tag="widget",
    path={"digest": Digest},
    query=None,
    database=False,
    answers={200: _SCRIPT, 304: _UNCHANGED},
    refusals=("not_found",),
)
DECLARATIONS: Final = Operation(
    tag="widget",
    query=None,
    database=False,
    answers={200: Answer("The declarations.", media_types=("text/plain",)), 304: _UNCHANGED},
)

routes = web.RouteTableDef()


@routes.get("/ui/specialist-feedback.js", name="widget")
@described(NEWEST)
async def newest(request: web.Request) -> web.Response:
    """The rating widget of this version of the relay.

    Pages that state its hash load it from the path with its version.
    """
    return _answer(request, request.app[WIDGET].script, "text/javascript", _REVALIDATED)


@routes.get("/ui/{digest:[0-9a-f]+}/specialist-feedback.js", name="widget_version")
@described(VERSIONED)
async def versioned(request: web.Request) -> web.Response:
    """The rating widget, if it is the one of this version; it may be cached for ever."""
    if request.match_info["digest"] != request.app[WIDGET].script.version:
        raise Refusal("not_found", "This relay has another version of the widget: `relay widget` tells which.")
    return _answer(request, request.app[WIDGET].script, "text/javascript", _IMMUTABLE)


@routes.get("/ui/specialist-feedback.d.ts", name="widget_types")
@described(DECLARATIONS)
async def declarations(request: web.Request) -> web.Response:
    """The rating widget's types, for TypeScript."""
    return _answer(request, request.app[WIDGET].declarations, "text/plain", _REVALIDATED)


def _answer(request: web.Request, file: File, content_type: str, cache_control: str) -> web.Response:
    headers = {**_FOR_ANY_PAGE, hdrs.CACHE_CONTROL: cache_control}
    # Weak: the same file is served with and without compression.
    tag = ETag(file.version, is_weak=True)
    if any(known.value in {tag.value, "*"} for known in request.if_none_match or ()):
        answer = web.Response(status=304, headers=headers)
    elif "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        answer = web.Response(body=file.compressed, content_type=content_type, charset="utf-8", headers=headers)
    else:
        answer = web.Response(body=file.body, content_type=content_type, charset="utf-8", headers=headers)
    answer.etag = tag
    return answer
