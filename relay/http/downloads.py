"""Files of any size, sent as they are made and no faster than their reader takes them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from relay.http.problems import harden

STALLED_SECONDS = 60.0
"""How long a reader may take nothing at all before it is taken for gone."""


async def download(
    request: web.Request, parts: AsyncGenerator[bytes, None], *, media_type: str, filename: str
) -> web.StreamResponse:
    """Send the parts, each made when the one before it was taken, and close their maker however it ends.

    An answer that breaks off is cut short, which the reader can tell from one that is complete. Nothing is sent before
    the first part is there, so that a refusal can still be answered. ``filename`` is plain ASCII.
    """
    response = web.StreamResponse(headers={"Content-Disposition": f'attachment; filename="{filename}"'})
    harden(response)  # before it is prepared, which the middleware never sees
    response.content_type = media_type
    if media_type.startswith("text/"):
        response.charset = "utf-8"
    async with aclosing(parts):
        async for part in parts:
            if not response.prepared:
                await response.prepare(request)
            if part:
                await _send(request, response, part)
    await response.write_eof()
    return response


async def _send(request: web.Request, response: web.StreamResponse, part: bytes) -> None:
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            await response.write(part)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("the reader takes nothing") from None
