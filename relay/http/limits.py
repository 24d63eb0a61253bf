"""What the server bounds, as the application carries it."""

from typing import Final

from aiohttp import web

MAX_BODY_BYTES: Final = web.AppKey("max_body_bytes", int)
