"""The specialist of the fault suite: it errs as a case tells it, and keeps a truthful record all the while."""

import asyncio
import json
import random
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.peers import Line, Peer, serve

Behaviour = Callable[["Witness", Line, "Post"], Awaitable[None]]
"""What to do with one post. Raise EOFError to be done with the connection."""


@dataclass(frozen=True, slots=True)
class Post:
    """One rating as it came in, for the ``number``-th time."""

    id: str
    task: str
    body: bytes
    number: int


@dataclass
class Witness:
    """Keeps what it is sent as a good specialist would: one row a UUID, and an exact repeat changes nothing.

    ``plan`` says how each post is met; `acknowledge` is how a healthy specialist meets all of them.
    """

    chance: random.Random
    plan: Callable[[Post], Behaviour]
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it has stored, by UUID."""
    received: defaultdict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: set[str] = field(default_factory=set)
    breaches: list[str] = field(default_factory=list)
    faults: int = 0
    """How many posts were met with anything but a prompt acknowledgement."""
    floors: dict[str, float] = field(default_factory=dict)
    """When, at the earliest, a UUID may come again, on the monotonic clock."""
    peer: Peer = field(default_factory=Peer)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        async with serve(self._attend, self.tls, host=self.host) as self.peer:
            yield

    @property
    def held(self) -> dict[str, str]:
        """The task of each UUID that it has stored."""
        return {one: row["taskId"] for one, row in self.kept.items()}

    def keep(self, post: Post) -> None:
        row = {**json.loads(post.body), "owner": "ok_1", "resolution": None, "createdAt": "2026-01-01T00:00:00Z"}
        self.kept.setdefault(post.id, row)

    def tell_to_wait(self, post: Post, seconds: float) -> None:
        self.floors[post.id] = time.monotonic() + seconds

    @property
    def posts(self) -> int:
        return sum(map(len, self.received.values()))

    async def _attend(self, line: Line) -> None:
        while True:
            received = await line.receive()
            if received.head.startswith(b"GET"):
                await line.send(answer(200, [*reversed(self.kept.values())][:100]))
                continue
            post = self._note(received.body)
            behave = self.plan(post)
            self.faults += behave is not acknowledge
            await behave(self, line, post)

    def _note(self, body: bytes) -> Post:
        rating: dict[str, Any] = json.loads(body)
        bodies = self.received[rating["id"]]
        bodies.append(body)
        if time.monotonic() < self.floors.get(rating["id"], 0):
            self.breaches.append(f"{rating['id']} came again before its Retry-After was over")
        return Post(rating["id"], rating["taskId"], body, len(bodies))


def answer(status: int, document: object, *headers: str) -> bytes:
    """A whole answer. ``document`` bytes go out as they are, anything else as JSON."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    lines = (f"HTTP/1.1 {status} Whatever", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def matching(post: Post) -> bytes:
    """The answer that saves."""
    return answer(201, {"id": post.id, "saved": True})


async def acknowledge(witness: Witness, line: Line, post: Post) -> None:
    """Keep it, and say so."""
    witness.keep(post)
    if not line.gone:
        witness.acknowledged.add(post.id)  # before the bytes leave: they may be read before the next line here
    await line.send(matching(post))


def always(_post: Post) -> Behaviour:
    """The plan of a healthy specialist."""
    return acknowledge


def at_first(behaviours: Sequence[Behaviour], chance: random.Random, *, most: int = 2) -> Callable[[Post], Behaviour]:
    """A plan: the first posts of each UUID, one to ``most``, are met with one of these; the rest are acknowledged."""
    patience: dict[str, int] = {}

    def plan(post: Post) -> Behaviour:
        if post.number <= patience.setdefault(post.id, chance.randint(1, most)):
            return chance.choice(behaviours)
        return acknowledge

    return plan


def perhaps_kept(witness: Witness, post: Post) -> None:
    """Whether a rating was stored is not for its answer to tell: half of those that are met badly are."""
    if witness.chance.random() < 0.5:
        witness.keep(post)


def saying(status: int, document: Callable[[Post], object], *headers: str) -> Behaviour:
    """A behaviour: this answer, which saves nothing; stored or not."""

    async def behave(witness: Witness, line: Line, post: Post) -> None:
        perhaps_kept(witness, post)
        await line.send(answer(status, document(post), *headers))

    return behave


async def hang(witness: Witness, line: Line, post: Post) -> None:
    """Say nothing until the other side has gone."""
    perhaps_kept(witness, post)
    await line.hold()
    raise EOFError


async def drip(witness: Witness, line: Line, post: Post) -> None:
    """The right answer, a byte now and then, so that it is never whole within any deadline."""
    perhaps_kept(witness, post)
    for byte in matching(post)[:-1]:
        if line.gone:
            break
        await line.send(bytes([byte]))
        await asyncio.sleep(0.05)
    await line.hold()
    raise EOFError


async def reset(witness: Witness, line: Line, post: Post) -> None:
    """A reset in place of an answer, or in the middle of one."""
    perhaps_kept(witness, post)
    if witness.chance.random() < 0.5:
        await line.send(matching(post)[:-10])
    line.reset()
    raise EOFError


async def break_off(witness: Witness, line: Line, post: Post) -> None:
    """An orderly end in the middle of the right answer: some of the head, some of the body, or all but one byte."""
    perhaps_kept(witness, post)
    whole = matching(post)
    await line.send(whole[: witness.chance.choice([20, len(whole) - 30, len(whole) - 1])])
    raise EOFError


def too_late(seconds: float) -> Behaviour:
    """A behaviour: keep it at once, and acknowledge it after so many seconds, to whoever still listens."""

    async def behave(witness: Witness, line: Line, post: Post) -> None:
        witness.keep(post)
        await asyncio.sleep(seconds)
        await acknowledge(witness, line, post)

    return behave


async def answer_twice(witness: Witness, line: Line, post: Post) -> None:
    """Two answers to one request, on a connection that stays open for the next: only the first one counts."""
    perhaps_kept(witness, post)
    first = witness.chance.choice(
        [
            answer(503, {}),
            answer(201, {"id": post.task, "saved": True}),
            answer(200, {"id": post.id, "saved": True}),
        ]
    )
    await line.send(first + matching(post))
