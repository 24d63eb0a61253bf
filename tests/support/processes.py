"""Relays as processes of their own, which a test may kill."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from typing_extensions import override

import relay
from tests.support.gateway import Caller
from tests.support.issuer import TestIssuer

T = TypeVar("T")

SOURCES = Path(relay.__file__).parents[1]
PATIENCE_SECONDS = 180
"""How long anything that must happen may take, on a machine that is busy with other things. Under pytest the test's own
timeout may be shorter."""

RELAY: Sequence[str] = (sys.executable, "-m", "relay")
"""How a relay is started, unless a test has a reason to start it otherwise."""

NOTED_LINES = 30
"""How many of its last lines a process adds to the report of a failure."""


async def until(found: Callable[[], Awaitable[T]], what: str) -> T:
    """Ask again and again; the first answer that is true. ``what`` is what a failure says never came."""
    async with patience(what):
        while True:
            if answer := await found():
                return answer
            await asyncio.sleep(0.02)


@asynccontextmanager
async def patience(what: str) -> AsyncIterator[None]:
    """Wait long, but not for ever, and say what never came."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise AssertionError(f"never came: {what}") from None


class Process:
    """One ``python -m relay …``; ``lines`` is what it has written to stdout and stderr so far."""

    def __init__(self, arguments: tuple[str, ...], process: asyncio.subprocess.Process) -> None:
        self.name = " ".join(arguments)
        self.lines: list[str] = []
        self._process = process
        self._written = asyncio.Condition()
        self._silent = False

    async def read(self) -> None:
        """Collect what it writes, until it ends."""
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            async with self._written:
                self.lines.append(line.decode(errors="replace").rstrip("\n"))
                self._written.notify_all()
        async with self._written:
            self._silent = True
            self._written.notify_all()

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log lines of one event."""
        return [line for line in map(_parsed, self.lines) if line.get("event") == name]

    async def logged(self, event: str) -> dict[str, Any]:
        """The first log line of this event, once it is written."""
        async with patience(f"{event!r} in the log of {self.name}"), self._written:
            await self._written.wait_for(lambda: self.events(event) or self._silent)
        assert self.events(event), f"{self.name} ended before {event!r}"
        return self.events(event)[0]

    async def kill(self) -> None:
        """SIGKILL: nothing more is executed in it. Returns when it is gone."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def terminate(self) -> None:
        """SIGTERM, as a supervisor stops a service."""
        self._process.send_signal(signal.SIGTERM)

    async def ended(self) -> int:
        """Its exit code, once it has ended by itself."""
        async with patience(f"the end of {self.name}"):
            return await self._process.wait()

    @property
    def runs(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @override
    def __str__(self) -> str:
        return "\n".join((f"relay {self.name}", *self.lines[-NOTED_LINES:]))


class GatewayProcess(Process):
    """A ``serve`` that takes requests; ``workbench`` sends them."""

    workbench: Caller


class Processes:
    """Starts relays of one configuration. Whatever still runs at the end of the block is killed."""

    def __init__(self, config: Path, issuer: TestIssuer) -> None:
        self._config = config
        self._issuer = issuer
        self._group = asyncio.TaskGroup()
        self._started: list[Process] = []

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._http = aiohttp.ClientSession()  # noqa: TID251 - a caller, not the relay
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._started:
            await process.kill()
        await self._http.close()
        await self._group.__aexit__(None, None, None)
        if error is not None:
            for process in self._started:
                error.add_note(str(process))

    async def serve(self, *options: str, launcher: Sequence[str] = RELAY) -> GatewayProcess:
        """A gateway, on a port of its own, once it is ready."""
        process = await self.start(GatewayProcess, "serve", *options, launcher=launcher)
        address: str = (await process.logged("serving"))["addresses"][0]
        process.workbench = Caller(self._issuer, int(address.rpartition(":")[2]), self._http)
        await until(lambda: self._is_ready(process), f"readiness of {process.name}")
        return process

    async def work(self, *, launcher: Sequence[str] = RELAY) -> Process:
        """A worker, once it works."""
        process = await self.start(Process, "work", launcher=launcher)
        await process.logged("running")
        return process

    async def start(self, kind: type["ProcessT"], *arguments: str, launcher: Sequence[str] = RELAY) -> "ProcessT":
        """A command of the relay, which may do anything from here on."""
        process = kind(
            arguments,
            await asyncio.create_subprocess_exec(
                *launcher,
                "--config",
                str(self._config),
                *arguments,
                cwd=SOURCES,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=2**20,
            ),
        )
        self._started.append(process)
        self._group.create_task(process.read())
        return process

    @staticmethod
    async def _is_ready(process: GatewayProcess) -> bool:
        assert process.runs, f"{process.name} ended"
        return (await process.workbench.call("GET", "/readyz")).status == 200


ProcessT = TypeVar("ProcessT", bound=Process)


def _parsed(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
