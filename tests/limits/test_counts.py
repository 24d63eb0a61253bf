"""Counting: exact in one process, shared through the database by several, and never waiting for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from structlog.testing import capture_logs

from relay.limits.counts import Counts
from relay.limits.model import Bucket, Limit, window_of
from relay.storage.engine import Database
from tests.conftest import TurnableClock
from tests.support.processes import until

ALICE = Limit("owner", 3, Bucket("a0" * 16))
BOB = Limit("owner", 3, Bucket("b0" * 16))
CLIENT = Limit("client", 5, Bucket("c0" * 16))


def take(counts: Counts, *limits: Limit) -> bool:
    """Whether one more request is let in."""
    return not counts.take(limits)[1]


async def stored(db: Database) -> dict[str, int]:
    async with db.read() as connection:
        rows = await connection.execute(text("SELECT bucket, sum(count) AS total FROM rate_limits GROUP BY bucket"))
        return {row.bucket: row.total for row in rows}


async def test_one_process_is_exact(database: Database, clock: TurnableClock):
    """The quota and not one more, whether or not the database has been told meanwhile; then a new window."""
    counts = Counts(database, clock)
    taken = []
    for _ in range(5):
        taken.append(take(counts, ALICE))
        await counts.flush()
    assert taken == [True, True, True, False, False]
    assert take(counts, BOB)
    clock.turn(60)
    assert [take(counts, ALICE) for _ in range(4)] == [True, True, True, False]


async def test_a_refused_request_counts_nowhere(database: Database, clock: TurnableClock):
    """Where one limit is used up, the others are not charged, and the database is told of what was let in only."""
    counts = Counts(database, clock)
    assert [take(counts, CLIENT, ALICE) for _ in range(5)] == [True, True, True, False, False]
    assert [take(counts, CLIENT, BOB) for _ in range(3)] == [True, True, False]
    await counts.flush()
    assert await stored(database) == {ALICE.bucket: 3, BOB.bucket: 2, CLIENT.bucket: 5}


async def test_standings_tell_what_is_left(database: Database, clock: TurnableClock):
    """After the request that is asked about, in the order of the limits; what is used up is told apart."""
    counts = Counts(database, clock)
    standings, spent = counts.take([CLIENT, ALICE])
    assert [(each.limit, each.remaining) for each in standings] == [(CLIENT, 4), (ALICE, 2)]
    assert spent == []
    for _ in range(2):
        counts.take([CLIENT, ALICE])
    standings, spent = counts.take([CLIENT, ALICE])
    assert [each.remaining for each in standings] == [2, 0]
    assert [each.limit for each in spent] == [ALICE]


async def test_processes_share_their_counts(database: Database, clock: TurnableClock):
    """What one has told the database, the other knows after its next word with it; the sum is both's."""
    here, there = Counts(database, clock), Counts(database, clock)
    assert take(here, ALICE)
    assert take(here, ALICE)
    await here.flush()
    assert take(there, ALICE)
    await there.flush()
    assert not take(there, ALICE)
    assert await stored(database) == {ALICE.bucket: 3}


async def test_the_error_of_several_processes_is_bounded(database: Database, clock: TurnableClock):
    """Before they hear of each other each lets in its quota at most, and afterwards nothing."""
    processes = [Counts(database, clock) for _ in range(3)]
    assert sum(take(each, ALICE) for each in processes for _ in range(10)) == 3 * ALICE.quota
    for each in processes:
        await each.flush()
    assert not any(take(each, ALICE) for each in processes)
    assert await stored(database) == {ALICE.bucket: 9}


async def test_many_processes_add_at_once(database: Database, clock: TurnableClock):
    """No count is lost and nobody waits in a circle when all write the same rows in whatever order they counted."""
    many = [Limit("owner", 1000, Bucket(f"{n:032x}")) for n in range(50)]
    processes = [Counts(database, clock) for _ in range(4)]
    for number, each in enumerate(processes):
        for limit in many if number % 2 else reversed(many):
            assert take(each, limit)
    await asyncio.gather(*(each.flush() for each in processes))
    assert await stored(database) == dict.fromkeys((limit.bucket for limit in many), 4)


async def test_starting_again_is_no_new_window(database: Database, clock: TurnableClock):
    """A process takes up the counts of open windows, and no others."""
    before = Counts(database, clock)
    take(before, ALICE)
    await before.flush()
    clock.turn(60)
    take(before, BOB)
    await before.flush()
    after = Counts(database, clock)
    await after.load()
    assert [take(after, BOB) for _ in range(3)] == [True, True, False]
    assert [take(after, ALICE) for _ in range(4)] == [True, True, True, False]


async def test_old_windows_are_thrown_away(database: Database, clock: TurnableClock):
    """From memory and from the table, there one window later than need be, for clocks that are behind."""
    counts = Counts(database, clock)
    clock.now = window_of(ALICE.bucket, int(clock.now * 1000)) / 1000
    for _ in range(2):
        take(counts, ALICE)
        await counts.flush()
        clock.turn(60)
    assert len(counts) == 1
    assert await stored(database) == {ALICE.bucket: 2}
    await counts.flush()
    assert len(counts) == 0
    assert await stored(database) == {ALICE.bucket: 1}


async def test_memory_is_bounded(database: Database, clock: TurnableClock):
    """Whoever makes up addresses makes the longest unused forgotten; the flush takes that in its stride."""
    counts = Counts(database, clock, most_buckets=10)
    for number in range(100):
        assert take(counts, Limit("address", 1, Bucket(f"{number:032x}")))
    assert len(counts) == 10
    await counts.flush()
    assert len(await stored(database)) == 10


async def test_an_outage_loses_no_count(database: Database, clock: TurnableClock):
    """Requests are judged by what is known here, and the database is told once it is back."""
    counts = Counts(database, clock)
    assert [take(counts, ALICE) for _ in range(2)] == [True, True]
    async with database.write() as connection:
        await connection.execute(text("ALTER TABLE rate_limits RENAME TO gone"))
    with pytest.raises(DBAPIError):
        await counts.flush()
    assert [take(counts, ALICE) for _ in range(2)] == [True, False]
    async with database.write() as connection:
        await connection.execute(text("ALTER TABLE gone RENAME TO rate_limits"))
    await counts.flush()
    assert await stored(database) == {ALICE.bucket: 3}


@asynccontextmanager
async def in_the_background(counts: Counts) -> AsyncIterator[None]:
    task = asyncio.ensure_future(counts.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()


async def has(db: Database, **totals: int) -> bool:
    return await stored(db) == totals


async def test_the_background_shares_by_itself_and_at_the_end(database: Database, clock: TurnableClock):
    """What was counted reaches the database without being asked for, and what is left when the process ends too."""
    counts = Counts(database, clock)
    async with in_the_background(counts):
        take(counts, ALICE)
        await until(lambda: has(database, **{ALICE.bucket: 1}), "Alice's count in the database")
        take(counts, BOB)
    assert await stored(database) == {ALICE.bucket: 1, BOB.bucket: 1}


async def test_the_background_outlives_an_outage(database: Database, clock: TurnableClock):
    """A failing database ends neither the task nor the counting, and gets everything when it is back."""
    counts = Counts(database, clock)
    async with database.write() as connection:
        await connection.execute(text("ALTER TABLE rate_limits RENAME TO gone"))

    async def has_failed() -> bool:
        return [entry["event"] for entry in logs] == ["counts_not_shared"] * 2

    with capture_logs() as logs:
        async with in_the_background(counts):
            take(counts, ALICE)
            await until(has_failed, "the warnings that counts were neither loaded nor shared")
            async with database.write() as connection:
                await connection.execute(text("ALTER TABLE gone RENAME TO rate_limits"))
            await until(lambda: has(database, **{ALICE.bucket: 1}), "Alice's count in the database")
