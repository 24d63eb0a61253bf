"""A bound on what is under way at a time, which may change while some of it is."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Self


class Turns:
    """Lets at most ``most()`` at a time into its block, in the order in which they come; asked at every change."""

    def __init__(self, most: Callable[[], int]) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> Self:
        self._call()  # the bound may have been raised
        if self._waiting or self._taken >= self._most():
            await self._wait()
        else:
            self._taken += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._taken -= 1
        self._call()

    async def _wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                await self.__aexit__()  # called, and gone before it came
            raise

    def _call(self) -> None:
        """Let in whoever may come; counted here, so that nobody slips in before them."""
        while self._waiting and self._taken < self._most():
            turn = self._waiting.popleft()
            self._taken += 1
            turn.set_result(None)
