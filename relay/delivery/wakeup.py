"""PostgreSQL's LISTEN and NOTIFY as a wake-up between processes. Polling stands behind it."""

import asyncio
from collections.abc import Callable

import psycopg
import structlog
from sqlalchemy import URL, text
from sqlalchemy.ext.asyncio import AsyncConnection

from relay.redaction import outline

log = structlog.get_logger(__name__)

CHANNEL = "feedback_relay_due"
RECONNECT_SECONDS = 2.0


async def listen(url: URL, wake: Callable[[], None], *, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
    """Call ``wake`` at each notification, for ever, on a connection of its own.

    Nothing else is executed on that connection: with notifications pending, psycopg would wait for itself.
    """
    conninfo = url.set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                wake()  # whatever was notified while nobody listened
                async for _ in connection.notifies():
                    wake()
        except (psycopg.Error, OSError) as error:
            log.warning("listen_interrupted", **outline(error))
        await asyncio.sleep(reconnect_seconds)


async def notify(connection: AsyncConnection) -> None:
    """Tell the workers that something has become due; sent with the commit."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"NOTIFY {CHANNEL}"))
