"""Natural group commit: what arrives while a flush is under way forms the next one. No timer, no added wait."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from relay.storage.absence import would_meet_each

Row = TypeVar("Row")
Result = TypeVar("Result")


class QueueFullError(Exception):
    """More rows wait than the queue may hold: nothing was stored."""


class GroupCommit(Generic[Row, Result]):
    """Collects rows and writes them in batches, one flush in flight at a time.

    ``write`` takes a batch and returns one result per row, in order. ``keys`` names what a batch may hold only once:
    rows that share a key with an earlier one join a later flush. If a batch of several fails, its rows are written one
    by one, so that a bad row fails alone; unless the error ``meets_each`` of them, such as that of a database which is
    away: then all fail with it, instead of waiting in vain one after the other.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Row]], Awaitable[Sequence[Result]]],
        keys: Callable[[Row], Iterable[Hashable]],
        *,
        most: int = 128,
        capacity: int = 1024,
        meets_each: Callable[[Exception], bool] = would_meet_each,
    ) -> None:
        self._write = write
        self._keys = keys
        self._most = most
        self._capacity = capacity
        self._meets_each = meets_each
        self._waiting: deque[tuple[Row, asyncio.Future[Result]]] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, row: Row) -> Result:
        """Return the row's result once its batch has committed. Raises `QueueFullError` when too many rows wait."""
        if len(self._waiting) >= self._capacity:
            raise QueueFullError
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, future))
        self._arrived.set()
        return await future

    async def run(self) -> None:
        """Flush for ever; the owner of the task cancels it after the last `submit` has returned."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                # Once around the loop: what has arrived at the sockets already comes along, and nobody waits for it.
                await asyncio.sleep(0)
                await self._flush(self._take())

    def _take(self) -> list[tuple[Row, asyncio.Future[Result]]]:
        batch: list[tuple[Row, asyncio.Future[Result]]] = []
        later: list[tuple[Row, asyncio.Future[Result]]] = []
        taken: set[Hashable] = set()
        while self._waiting and len(batch) < self._most:
            entry = self._waiting.popleft()
            keys = set(self._keys(entry[0]))
            if keys & taken:
                later.append(entry)
            else:
                batch.append(entry)
            taken |= keys
        self._waiting.extendleft(reversed(later))
        return batch

    async def _flush(self, batch: Sequence[tuple[Row, asyncio.Future[Result]]]) -> None:
        try:
            results = await self._write([row for row, _ in batch])
        except Exception as error:  # noqa: BLE001 - whatever it is, each caller gets its own verdict
            await self._one_by_one(batch, error)
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def _one_by_one(self, batch: Sequence[tuple[Row, asyncio.Future[Result]]], error: Exception) -> None:
        if len(batch) == 1 or self._meets_each(error):
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for entry in batch:
            await self._flush([entry])
