"""Cross-origin requests (WHATWG Fetch) from the pages that the configuration names, and from no other."""

from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler

ALLOWED_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS = "Authorization, Content-Type, Prefer, Last-Event-ID, traceparent"
EXPOSED_HEADERS = "Location, Retry-After, Preference-Applied, RateLimit, RateLimit-Policy"
MAX_AGE_SECONDS = 7200
"""How long a browser may remember a preflight; Chromium caps it here."""


class SharedOrigins:
    """The origins whose pages may read our answers. They send tokens, not cookies: credentials are never allowed."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a preflight from an allowed origin; any other request goes on, and its answer says nothing of CORS."""
        if (
            request.method == "OPTIONS"
            and "Access-Control-Request-Method" in request.headers
            and request.headers.get("Origin") in self._origins
        ):
            return web.Response(
                status=204,
                headers={
                    "Access-Control-Allow-Methods": ALLOWED_METHODS,
                    "Access-Control-Allow-Headers": ALLOWED_HEADERS,
                    "Access-Control-Max-Age": str(MAX_AGE_SECONDS),
                },
            )
        return await handler(request)

    async def mark(self, request: web.Request, response: web.StreamResponse) -> None:
        """For ``on_response_prepare``, so that streams and problem documents are marked as well."""
        if not self._origins or "Access-Control-Allow-Origin" in response.headers:
            return  # what is for any page says so itself
        response.headers.add("Vary", "Origin")
        origin = request.headers.get("Origin")
        if origin in self._origins:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = EXPOSED_HEADERS
