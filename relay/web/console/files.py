"""The console's style and script, served under a path that names exactly these bytes, so that they may be kept."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from aiohttp import hdrs, web

from relay.errors import Refusal
from relay.web.module import File

TYPES: Final[Mapping[str, str]] = {
    "console.css": "text/css",
    "pages.css": "text/css",
    "console.js": "text/javascript",
}
_KEPT: Final = "public, max-age=31536000, immutable"


@cache
def load() -> Mapping[str, File]:
    """The files by their names."""
    folder = files("relay.web.console") / "static"
    return MappingProxyType({name: File.of((folder / name).read_text("utf-8")) for name in TYPES})


def address(name: str) -> str:
    """Where a page finds a file of this version."""
    return f"/console/static/{load()[name].version}/{name}"


async def answer(request: web.Request) -> web.Response:
    """A file, if it is the one of this version."""
    name = request.match_info["name"]
    file = load().get(name)
    if file is None or file.version != request.match_info["version"]:
        raise Refusal("not_found", "The console has no such file in this version.")
    headers = {hdrs.CACHE_CONTROL: _KEPT, hdrs.VARY: hdrs.ACCEPT_ENCODING}
    body = file.body
    if "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, ""):
        headers[hdrs.CONTENT_ENCODING] = "gzip"
        body = file.compressed
    return web.Response(body=body, content_type=TYPES[name], charset="utf-8", headers=headers)
