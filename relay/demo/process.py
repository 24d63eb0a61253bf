"""One of the demonstration's servers as a process: says when it is ready, stops when it is told to."""

import asyncio
import json
import signal
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click
from aiohttp import web

from relay.http.server import Runner

ADDRESS = "127.0.0.1"
DRAIN_SECONDS = 2.0


def listen(port: int) -> socket.socket:
    """A listening socket on loopback; port 0 takes a free one. It comes first: a server names itself by its address."""
    return socket.create_server((ADDRESS, port))


def url_of(listener: socket.socket, *, secure: bool) -> str:
    """The URL of a server on this socket; behind TLS by the name that its certificate holds."""
    port = listener.getsockname()[1]
    return f"https://localhost:{port}" if secure else f"http://{ADDRESS}:{port}"


def url_of_page(port: int) -> str:
    """The URL of a page on this port, by the name of this machine: an address is no origin that a relay shares with."""
    return f"http://localhost:{port}"


@asynccontextmanager
async def serving(
    app: web.Application, listener: socket.socket, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Answer requests within the block; on leaving it those under way get `DRAIN_SECONDS` to finish."""
    runner = Runner(app, shutdown_timeout=DRAIN_SECONDS)
    await runner.setup()
    try:
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield
    finally:
        await runner.cleanup()


async def stay(name: str, url: str) -> None:
    """Print the JSON line ``{"ready": name, "url": url}`` for who started us, and return at SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    click.echo(json.dumps({"ready": name, "url": url}))
    await stop.wait()
