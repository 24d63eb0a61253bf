"""HTTP/1.1 by hand: what a client library would never send, and answers without a library's kindness."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

PATIENCE_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer as it came; header names in lower case, repeated headers joined with commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a problem document, which is checked to be a whole one."""
        document = self.json
        assert self.headers["content-type"].startswith("application/problem+json")
        assert document["type"] == f"urn:feedback-relay:{document['code']}"
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        assert self.headers["cache-control"] == "no-store"
        return str(document["code"])


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection for exchanges that take several turns; given up after half a minute."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def send(port: int, *parts: bytes) -> Answered:
    """Send the parts, each after the one before has left, and read one answer."""
    async with connected(port) as (reader, writer):
        for part in parts:
            writer.write(part)
            await writer.drain()
        return await read_answer(reader)


async def read_answer(reader: asyncio.StreamReader) -> Answered:
    """One answer whose length its header says, or that ends with the connection."""
    status, headers = parse_head(await reader.readuntil(b"\r\n\r\n"))
    if "content-length" in headers:
        body = await reader.readexactly(int(headers["content-length"]))
    else:
        body = b"" if status in {204, 304} else await reader.read()
    return Answered(status, headers, body)


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        key = name.lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return int(first.split(" ")[1]), headers


def request(method: str, target: str, *headers: str, body: bytes | None = None) -> bytes:
    """A request with a Host, the header lines given, and the length of its body."""
    lines = [f"{method} {target} HTTP/1.1", "Host: relay.example", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")
