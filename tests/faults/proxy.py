"""A TCP proxy in front of PostgreSQL that cuts connections at the commits of its choice, on either side of them.

It reads the frontend/backend protocol (PostgreSQL documentation, chapter "Message Formats"): one byte of type, a length
of four bytes that counts itself, and the rest.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from sqlalchemy import URL, make_url

Point = Literal["accept", "claim", "settle", "expiry"]
Side = Literal["before", "after"]
Cut = Callable[[Point], Side | None]
"""Whether to cut at this commit, and on which side of it."""

_TLS_OR_GSS = (80877103, 80877104)
_LOST = re.compile(rb'"outcome"\s*:\s*"lost"')


def points_of(unit: bytes) -> set[Point]:
    """What the statements of these bytes change, told by what only one statement of the relay contains."""
    found: set[Point] = set()
    if b"INTO submissions" in unit:
        found.add("accept")
    elif b"SKIP LOCKED" in unit:
        found.add("claim")
    if b"INTO attempts" in unit:
        found.add("expiry" if _LOST.search(unit) else "settle")
    return found


class Proxy:
    """Listens on loopback. ``url`` leads to the database through it; ``cuts`` counts what it has cut, and where."""

    def __init__(self, database_url: str) -> None:
        self._url = make_url(database_url)
        self.url = ""
        self.cuts: Counter[tuple[Point, Side]] = Counter()
        self.cut: Cut = lambda _: None
        self.away_seconds = 0.2
        """How long nobody gets in after a cut."""
        self._away_until = 0.0
        self._lines: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._attend, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        url = URL.create("postgresql", self._url.username, None, "127.0.0.1", port, self._url.database)
        self.url = str(url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    def verdict(self, points: set[Point]) -> Side | None:
        for point in sorted(points):
            if side := self.cut(point):
                self.cuts[point, side] += 1
                return side
        return None

    def go_away(self) -> None:
        self._away_until = asyncio.get_running_loop().time() + self.away_seconds

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._lines.add(task)
        try:
            if asyncio.get_running_loop().time() >= self._away_until:
                with suppress(OSError, EOFError):
                    await self._relay(reader, writer)
        finally:
            self._lines.discard(task)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await self._dial()
        try:
            line = _Line(self, up_writer, writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(line.requests(reader))
                group.create_task(line.answers(up_reader))
        except* (OSError, EOFError):
            pass
        finally:
            up_writer.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._url.query.get("host", self._url.host), self._url.port or 5432
        assert isinstance(host, str)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


class _Line:
    """One connection: what goes up is read unit by unit, a unit being what the server answers with ReadyForQuery."""

    def __init__(self, proxy: Proxy, up: asyncio.StreamWriter, down: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._up = up
        self._down = down
        self._in_transaction = False
        self._touched: set[Point] = set()
        self._swallowing = False
        self._prepared: dict[bytes, bytes] = {}

    async def requests(self, reader: asyncio.StreamReader) -> None:
        await self._greet(reader)
        unit = b""
        while True:
            kind, message = await _message(reader)
            unit += message
            if kind in b"SQX":
                await self._pass_on(unit)
                unit = b""
            elif kind not in b"PBDECH":  # a password, or copied data: of no interest
                self._up.write(unit)
                unit = b""

    async def _greet(self, reader: asyncio.StreamReader) -> None:
        while True:
            length = await reader.readexactly(4)
            rest = await reader.readexactly(int.from_bytes(length) - 4)
            if int.from_bytes(rest[:4]) not in _TLS_OR_GSS:
                self._up.write(length + rest)
                return
            self._down.write(b"N")

    async def _pass_on(self, unit: bytes) -> None:
        side = self._proxy.verdict(self._committing(unit))
        if side == "before":
            self._proxy.go_away()
            raise EOFError
        self._swallowing = side == "after"
        self._up.write(unit)
        await self._up.drain()

    def _committing(self, unit: bytes) -> set[Point]:
        """What is committed when the server has carried out this unit."""
        text = self._with_statements(unit)
        points = points_of(text)
        commits = b"COMMIT" in text
        opens = self._in_transaction or b"BEGIN" in text
        self._touched |= points
        if opens and not commits:
            return set()
        committing, self._touched = self._touched, set()
        return committing

    def _with_statements(self, unit: bytes) -> bytes:
        """The unit, with the text of the prepared statements that it executes."""
        text, rest = unit, unit
        while rest:
            kind, end = rest[:1], 1 + int.from_bytes(rest[1:5])
            body = rest[5:end]
            if kind == b"P":
                name, _, statement = body.partition(b"\0")
                self._prepared[name] = statement.partition(b"\0")[0]
            elif kind == b"B":
                text += self._prepared.get(body.split(b"\0", 2)[1], b"")
            rest = rest[end:]
        return text

    async def answers(self, reader: asyncio.StreamReader) -> None:
        while True:
            kind, message = await _message(reader)
            if kind == b"Z":
                self._in_transaction = message[5:6] != b"I"
                if self._swallowing:
                    self._proxy.go_away()
                    raise EOFError
            if not self._swallowing:
                self._down.write(message)
                await self._down.drain()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
