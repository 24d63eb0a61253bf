"""One of the demonstration's servers as a process: says when it is ready, stops when it is told to."""

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable

import click
from aiohttp import web

from relay.http.server import Runner

ADDRESS = "127.0.0.1"
DRAIN_SECONDS = 2.0


async def serve(
    build: Callable[[str], Awaitable[web.Application]],
    *,
    name: str,
    port: int,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve what ``build`` makes of the server's own URL, on loopback, until SIGTERM or SIGINT; then return.

    Port 0 takes a free one. Prints one JSON line ``{"ready": name, "url": url}`` once requests are answered.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    # The address is taken before the application is built, because an application names itself by it.
    with socket.create_server((ADDRESS, port)) as listener:
        url = url_of(listener, secure=tls is not None)
        runner = Runner(await build(url), shutdown_timeout=DRAIN_SECONDS)
        await runner.setup()
        try:
            await web.SockSite(runner, listener, ssl_context=tls).start()
            click.echo(json.dumps({"ready": name, "url": url}))
            await stop.wait()
        finally:
            await runner.cleanup()


def url_of(listener: socket.socket, *, secure: bool) -> str:
    """The URL of a server on this socket; behind TLS by the name that its certificate holds."""
    port = listener.getsockname()[1]
    return f"https://localhost:{port}" if secure else f"http://{ADDRESS}:{port}"
