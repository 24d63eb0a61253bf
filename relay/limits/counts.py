"""How many requests each bucket has made in its window: known at once in this process, shared through the database.

A request never waits for the database. It is counted here and judged by what is known here: what the database said
last, and what has been counted since. In the background the new counts are added to the table, and the sums come
back. So one process is exact. Of several, each may let through what the others took since it last heard of the
bucket: at most the quota for each process in one window, and with steady traffic what arrives in `FLUSH_SECONDS`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from relay.clock import Clock
from relay.limits.model import WINDOW_MS, Bucket, Limit, Standing, standing, window_of
from relay.redaction import outline
from relay.storage.engine import Database
from relay.storage.records import ColumnType, dumps, recordset

FLUSH_SECONDS: Final = 0.25
MOST_BUCKETS: Final = 65_536
"""Held in memory; beyond them the one unused for longest is forgotten, and its owner, if at all, gains by it."""
RETRY_SECONDS: Final = 2
PRUNE_SECONDS: Final = 60
BATCH: Final = 1000

_COLUMNS: Final[dict[str, ColumnType]] = {"bucket": "text", "start": "bigint", "more": "int"}

# In the order of the key, so that two processes that add to the same rows do not wait for each other in a circle.
_ADD: Final = """
INSERT INTO rate_limits (bucket, "window", count)
SELECT bucket, start, more FROM {rows} AS r WHERE true ORDER BY bucket, start
ON CONFLICT (bucket, "window") DO UPDATE SET count = rate_limits.count + excluded.count
RETURNING bucket, "window" AS start, count AS total
"""
_LOAD: Final = 'SELECT bucket, "window" AS start, count AS total FROM rate_limits WHERE "window" > :before LIMIT :most'
_PRUNE: Final = 'DELETE FROM rate_limits WHERE "window" <= :before'

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Count:
    """Of one bucket in one window. ``shared`` is what the database said last, ``fresh`` what it has not been told."""

    start: int
    shared: int = 0
    under_way: int = 0
    fresh: int = 0

    @property
    def total(self) -> int:
        return self.shared + self.under_way + self.fresh

    def hand_over(self) -> int:
        """What is now on its way to the database."""
        more, self.fresh = self.fresh, 0
        self.under_way += more
        return more

    def take_back(self, more: int) -> None:
        self.under_way -= more
        self.fresh += more

    def settle(self, more: int) -> None:
        """The database has it; what it says of the sum comes separately."""
        self.under_way -= more
        self.shared += more


class Counts:
    """The counts of the windows that are open. Run `run` beside whatever counts."""

    def __init__(self, db: Database, clock: Clock, *, most_buckets: int = MOST_BUCKETS) -> None:
        self._db = db
        self._clock = clock
        self._most = most_buckets
        self._counts: OrderedDict[Bucket, _Count] = OrderedDict()
        self._dirty: set[Bucket] = set()
        self._news = asyncio.Event()
        self._next_prune = float("-inf")
        self._add = text(_ADD.format(rows=recordset(db.dialect, "rows", _COLUMNS)))

    def __len__(self) -> int:
        return len(self._counts)

    def take(self, limits: Sequence[Limit]) -> tuple[list[Standing], list[Standing]]:
        """Count one request under all of these limits, or, where one of them is used up, under none.

        The standings of all, and of those that are used up.
        """
        now = self._now()
        counts = [self._count(limit.bucket, now) for limit in limits]
        spent = [limit for limit, count in zip(limits, counts, strict=True) if count.total >= limit.quota]
        if not spent:
            for limit, count in zip(limits, counts, strict=True):
                count.fresh += 1
                self._dirty.add(limit.bucket)
            self._news.set()
        standings = [standing(limit, count.total, now) for limit, count in zip(limits, counts, strict=True)]
        return standings, [each for each in standings if each.limit in spent]

    async def load(self) -> None:
        """Take up what the database knows, so that starting again does not give everyone a new window."""
        async with self._db.read() as connection:
            found = await connection.execute(text(_LOAD), {"before": self._now() - WINDOW_MS, "most": self._most})
            for row in found:
                self._learn(Bucket(row.bucket), row.start, row.total)

    async def run(self) -> None:
        """Share the counts until cancelled, and what is left at the end."""
        try:
            await self._try(self.load)
            while True:
                await self._news.wait()
                await asyncio.sleep(FLUSH_SECONDS)
                if not await self._try(self.flush):
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            await self._try(self.flush)

    async def _try(self, step: Callable[[], Awaitable[None]]) -> bool:
        """Requests are counted without the database too; it is told when it is back."""
        try:
            await step()
        except (SQLAlchemyError, OSError) as error:
            _log.warning("counts_not_shared", **outline(error))
            return False
        return True

    async def flush(self) -> None:
        """Tell the database what it has not been told, and learn the sums; now and then, throw away what is over.

        One flush at a time. Raises what the database raises, and then nothing is lost.
        """
        self._news.clear()
        buckets = sorted(self._dirty)
        for first in range(0, len(buckets), BATCH):
            await self._share(buckets[first : first + BATCH])
        if self._clock.monotonic() >= self._next_prune:
            await self._prune()

    async def _share(self, buckets: Sequence[Bucket]) -> None:
        handed = [(bucket, count, count.hand_over()) for bucket in buckets if (count := self._counts.get(bucket))]
        self._dirty.difference_update(buckets)
        rows = [{"bucket": bucket, "start": count.start, "more": more} for bucket, count, more in handed]
        try:
            async with self._db.statement() as connection:
                sums = (await connection.execute(self._add, {"rows": dumps(rows)})).all()
        except BaseException:
            # Even when cancelled in the middle of a commit: it is better to count a request twice than not at all.
            for bucket, count, more in handed:
                count.take_back(more)
                self._dirty.add(bucket)
            self._news.set()
            raise
        for _, count, more in handed:
            count.settle(more)
        for row in sums:
            self._learn(Bucket(row.bucket), row.start, row.total)

    def _learn(self, bucket: Bucket, start: int, total: int) -> None:
        now = self._now()
        if start == window_of(bucket, now):
            count = self._count(bucket, now)
            count.shared = max(count.shared, total)

    def _count(self, bucket: Bucket, now: int) -> _Count:
        start = window_of(bucket, now)
        count = self._counts.get(bucket)
        if count is None or count.start != start:
            count = self._counts[bucket] = _Count(start)
        self._counts.move_to_end(bucket)
        if len(self._counts) > self._most:
            self._counts.popitem(last=False)
        return count

    async def _prune(self) -> None:
        self._next_prune = self._clock.monotonic() + PRUNE_SECONDS
        now = self._now()
        for bucket in [b for b, count in self._counts.items() if count.start + WINDOW_MS <= now]:
            del self._counts[bucket]
        async with self._db.statement() as connection:
            # One window more, for processes whose clocks are behind.
            await connection.execute(text(_PRUNE), {"before": now - 2 * WINDOW_MS})

    def _now(self) -> int:
        return int(self._clock.unix() * 1000)
