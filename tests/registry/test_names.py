"""Looking up names: a dead one takes one thread, and what is found is not kept."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from registry.names import Lookups

system_lookup = socket.getaddrinfo


class Nameserver:
    """Stands in for the system's resolver: names that begin with ``dead`` are not answered until the end."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.asked_dead = threading.Event()
        self.end = threading.Event()

    def __call__(self, host: str, *arguments: Any, **options: Any) -> list[Any]:
        self.asked.append(host)
        if host.startswith("dead"):
            self.asked_dead.set()
            self.end.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return system_lookup("127.0.0.1", *arguments, **options)


@pytest.fixture
def nameserver(monkeypatch: pytest.MonkeyPatch) -> Nameserver:
    server = Nameserver()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    return server


@pytest.fixture
async def lookups() -> AsyncIterator[Lookups]:
    lookups = Lookups()
    yield lookups
    await lookups.close()


async def test_names_are_looked_up_by_the_system(lookups: Lookups):
    """The hosts file and whatever else the system knows count; the port is kept as it was given."""
    found = await lookups.resolve("localhost", 8443)
    assert {"127.0.0.1", "::1"} >= {row["host"] for row in found} != set()
    assert {row["port"] for row in found} == {8443}


@pytest.mark.parametrize("host", ["nobody.invalid", "a" * 64 + ".example", "a..b", "." * 300])
async def test_what_cannot_be_looked_up_is_an_os_error(lookups: Lookups, host: str):
    """An unknown name, and a text that is no name at all, end the same way."""
    with pytest.raises(socket.gaierror):
        await lookups.resolve(host, 443)


async def outcome(lookups: Lookups, host: str) -> str:
    try:
        return (await lookups.resolve(host, 443))[0]["host"]
    except socket.gaierror:
        return "no answer"


async def test_a_dead_name_takes_one_thread(lookups: Lookups, nameserver: Nameserver):
    """Many that wait for a dead name share one lookup; another name is answered meanwhile, and giving up harms none."""
    async with asyncio.TaskGroup() as group:
        waiting = [group.create_task(outcome(lookups, "dead.example")) for _ in range(100)]
        await asyncio.to_thread(nameserver.asked_dead.wait, 30)
        assert await outcome(lookups, "alive.example") == "127.0.0.1"
        for task in waiting[:50]:
            task.cancel()
        nameserver.end.set()
    assert {task.result() for task in waiting[50:]} == {"no answer"}
    assert nameserver.asked == ["dead.example", "alive.example"]


async def test_what_was_found_is_not_kept(lookups: Lookups, nameserver: Nameserver):
    """Every lookup that begins after another has ended asks again."""
    for _ in range(3):
        assert await outcome(lookups, "alive.example") == "127.0.0.1"
    assert nameserver.asked == ["alive.example"] * 3


async def test_closing_does_not_wait_for_dead_names(nameserver: Nameserver):
    """Whoever closes is not held up by a lookup that nobody waits for any more."""
    lookups = Lookups()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(outcome(lookups, "dead.example"))
        await asyncio.to_thread(nameserver.asked_dead.wait, 30)
        task.cancel()
    await lookups.close()
    assert not nameserver.end.is_set()
    nameserver.end.set()
