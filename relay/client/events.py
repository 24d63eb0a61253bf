"""The events of one's own submissions, without end: cut off, resumed, and none lost or told twice."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from relay.client.calling import Calling, Request
from relay.client.errors import AnswerError, RelayError
from relay.client.model import Change, Resync, Submission
from relay.client.repeats import FIRST_PAUSE_SECONDS, may_pass
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
        self._resync_due = False

    async def follow(self) -> AsyncIterator[Change | Resync]:
        """Events until the reader leaves.

        Raises `RelayError` where the relay refuses, `UnreachableError` when it is not reached within the deadline.
        """
        while True:
            async with await self._connect() as response:
                async for block in self._blocks(response):
                    news = self._news(block)
                    if news is not None:
                        yield news
            await asyncio.sleep(FIRST_PAUSE_SECONDS)

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
            await self._calling.renew()

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
