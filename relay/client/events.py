"""The events of one's own submissions, without end: cut off, resumed, and none lost.

A reader without a place, or with one that the relay does not know, is told to list first, once the stream is open:
what changes while they list comes after.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator

import aiohttp
import msgspec

from relay.client.calling import Calling, Request
from relay.client.errors import AnswerError, RelayError
from relay.client.model import Change, Resync, Submission
from relay.client.repeats import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, may_pass
from relay.client.sse import Block, Parser

EVENT_STREAM = "text/event-stream"

SILENCE_SECONDS = 60.0
"""The relay says something every few seconds; after such a silence the connection is dead."""

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS)


class Following:
    """One reader's place in the stream."""

    def __init__(self, calling: Calling, last_event_id: str | None, *, seconds: float) -> None:
        self._calling = calling
        self._last = last_event_id
        self._seconds = seconds
        self._resync_due = last_event_id is None

    async def follow(self) -> AsyncGenerator[Change | Resync, None]:
        """Events until the reader leaves.

        Raises `RelayError` where the relay refuses, `UnreachableError` when it is not reached within the deadline.
        """
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = loop.time()
            async with await self._connect() as response:
                async for block in self._blocks(response):
                    news = self._news(block)
                    if news is not None:
                        yield news
            # What ends at once is opened less and less often; and not by everybody in the same moment.
            lasted = loop.time() - began > LONGEST_PAUSE_SECONDS
            pause = FIRST_PAUSE_SECONDS if lasted else min(2 * pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - no secret

    async def _connect(self) -> aiohttp.ClientResponse:
        async def once() -> aiohttp.ClientResponse:
            resume = {"Last-Event-ID": self._last} if self._last else {}
            request = Request(method="GET", path="/api/feedback/events", headers={**resume, "Accept": EVENT_STREAM})
            return await self._calling.open(request, _TIMEOUT)

        try:
            return await self._calling.repeated(once, seconds=self._seconds)
        except RelayError as refused:
            if self._last is None or refused.extras.get("parameter") != "Last-Event-ID":
                raise
        # The relay does not know this place any more, and only a new stream can say what comes next.
        self._last, self._resync_due = None, True
        return await self._calling.repeated(once, seconds=self._seconds)

    async def _blocks(self, response: aiohttp.ClientResponse) -> AsyncIterator[Block]:
        """The blocks until the stream ends or is cut off."""
        parser = Parser()
        try:
            async for data in response.content.iter_any():
                for block in parser.feed(data):
                    yield block
        except (aiohttp.ClientError, TimeoutError) as error:
            if not may_pass(error):
                raise
        except ValueError:
            raise AnswerError(response.status, "not the events of a relay") from None
        else:
            # A stream ends with its token.
            self._calling.renew()

    def _news(self, block: Block) -> Change | Resync | None:
        if block.id is not None:
            self._last = block.id
        place = self._last or ""
        if block.event == "resync" or self._resync_due:
            self._resync_due = False
            return Resync(place)
        if block.event != "feedback" or block.data is None:
            return None
        try:
            return Change(place, msgspec.json.decode(block.data, type=Submission))
        except msgspec.DecodeError:
            raise AnswerError(200, "not the events of a relay") from None
