"""What the server bounds, as the application carries it."""

from typing import Final, Literal

from aiohttp import web

MAX_BODY_BYTES: Final = web.AppKey("max_body_bytes", int)

Policy = Literal["address", "client", "owner"]
"""Whose requests are counted together (see `relay.limits`)."""
