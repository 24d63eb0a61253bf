"""Looking up host names without one dead name holding up the others."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult
from typing_extensions import override

_Key: TypeAlias = tuple[str, int, socket.AddressFamily]

_THREADS = 32
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class Lookups(AbstractResolver):
    """``getaddrinfo`` in threads of its own, one lookup at a time for a name.

    The system's resolver cannot be interrupted: a name whose servers are silent keeps its thread for many seconds.
    Callers that ask for the same name meanwhile wait for that same lookup, so that a dead destination takes one
    thread however many deliveries wait for it. Nothing is kept after a lookup has ended.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lookup")
        self._under_way: dict[_Key, asyncio.Future[list[ResolveResult]]] = {}

    @override
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        key = (host, port, family)
        lookup = self._under_way.get(key)
        if lookup is None:
            loop = asyncio.get_running_loop()
            lookup = loop.run_in_executor(self._threads, partial(_look_up, host, port, family))
            self._under_way[key] = lookup
            lookup.add_done_callback(lambda _: self._under_way.pop(key))
        return await asyncio.shield(lookup)

    @override
    async def close(self) -> None:
        """Forget what is still being looked up; nobody may be waiting for it any more."""
        for lookup in self._under_way.values():
            lookup.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[ResolveResult]:
    try:
        rows = socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError:  # what Python's codec for names raises when a label is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, "not a DNS name") from None
    return [
        ResolveResult(hostname=host, host=str(address[0]), port=port, family=found, proto=proto, flags=_NUMERIC)
        for found, _, proto, _, address in rows
    ]
