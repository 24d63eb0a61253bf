"""Old events are thrown away, and whoever has missed one is told."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import make_url, text

from relay.feedback.feed import Feed, Position, Resync
from relay.identity.model import OwnerId
from relay.retention.pruning import Pruning
from relay.storage.engine import Database

EVENT = """
INSERT INTO events (tenant, owner, kind, ref, state, at)
VALUES ('acme', 1, 'feedback', :ref, 'saved', {now} - :age_ms) RETURNING seq
"""
ALICE = OwnerId(1)
DAY_MS = 86_400_000


async def happen(db: Database, *days_old: float) -> list[int]:
    """Events of these ages in one transaction each; their numbers."""
    numbers = []
    for days in days_old:
        async with db.write() as connection:
            values = {"ref": len(numbers) + 1, "age_ms": round(days * DAY_MS)}
            numbers.append(int((await connection.execute(db.sql(EVENT), values)).scalar_one()))
    return numbers


async def left(db: Database) -> list[int]:
    async with db.read() as connection:
        return list((await connection.execute(text("SELECT seq FROM events ORDER BY seq"))).scalars())


async def change(db: Database, statement: str, **parameters: Any) -> None:
    async with db.write() as connection:
        await connection.execute(db.sql(statement), parameters)


async def read(db: Database, position: Position) -> list[int] | Resync:
    """What a reader at ``position`` is given: the refs of what changed, or the word to list again."""
    news = await Feed(db, poll_seconds=1)._read(ALICE, position)
    return news if isinstance(news, Resync) else [change.submission for change in news]


async def test_what_is_old_is_thrown_away(database: Database):
    """In batches, oldest first; what is young stays."""
    numbers = await happen(database, 9, 9, 8, 8, 7.5, 6, 1, 0)
    assert await Pruning(database, days=7, batch=2).run() == 5
    assert await left(database) == numbers[5:]
    assert await Pruning(database, days=7, batch=2).run() == 0


async def test_readers_are_told_what_they_missed(database: Database):
    """Who stands before the horizon lists again and goes on from now; who stands behind it misses nothing."""
    feed = Feed(database, poll_seconds=1)
    before = await feed.tail()
    await happen(database, 9, 9, 0)
    behind = await feed.tail()
    await happen(database, 0)
    assert await read(database, before) == [1, 2, 3, 1]
    await Pruning(database, days=7).run()
    lost = await read(database, before)
    assert isinstance(lost, Resync)
    assert await read(database, lost.position) == []
    assert await read(database, behind) == [1]
    await happen(database, 0)
    assert await read(database, lost.position) == [1]
    assert await read(database, await feed.tail()) == []


async def test_a_reader_at_the_horizon_has_missed_nothing(database: Database):
    """Whoever has read the last event that was thrown away goes on with the one after it."""
    feed = Feed(database, poll_seconds=1)
    before = await feed.tail()
    await happen(database, 9, 9, 0)
    news = await feed._read(ALICE, before)
    assert not isinstance(news, Resync)
    await Pruning(database, days=7).run()
    assert isinstance(await read(database, news[0].position), Resync)
    assert await read(database, news[1].position) == [3]


async def test_numbers_go_on_when_everything_is_old(database: Database):
    """However quiet it was: no position is given to two events, and readers hear of what happens next."""
    feed = Feed(database, poll_seconds=1)
    [number] = await happen(database, 9)
    reached = await feed.tail()
    await Pruning(database, days=7).run()
    await Pruning(database, days=7).run()
    [following] = await happen(database, 0)
    assert following > number
    assert await read(database, reached) == [1]


async def test_following_goes_on_after_a_resync(database: Database):
    """A reader who stands too early is told once, and hears of what happens then."""
    feed = Feed(database, poll_seconds=1)
    before = await feed.tail()
    await happen(database, 9, 9)
    await happen(database, 0)
    await Pruning(database, days=7).run()
    told: list[object] = []
    news = feed.follow(ALICE, before, idle=60)
    async with asyncio.TaskGroup() as group:
        looking = group.create_task(feed.run())
        told.append(await anext(news))
        await happen(database, 0)
        feed.wake()
        told.append(await anext(news))
        looking.cancel()
    await news.aclose()  # type: ignore[attr-defined]
    assert isinstance(told[0], Resync)
    assert [change.submission for change in told[1]] == [1]  # type: ignore[attr-defined]


async def test_an_older_copy_of_a_file_is_noticed(sqlite_database_url: str):
    """A position that lies ahead of everything comes from what the file was before."""
    db = Database.open(sqlite_database_url)
    feed = Feed(db, poll_seconds=1)
    await happen(db, 0, 0)
    ahead = await feed.tail()
    await change(db, "DELETE FROM events WHERE seq = 2")
    assert isinstance(await read(db, ahead), Resync)
    await db.close()


@pytest.fixture
async def postgres(postgres_database_url: str):
    db = Database.open(postgres_database_url)
    yield db
    await db.close()


async def test_what_readers_have_not_reached_stays(postgres: Database):
    """While a transaction runs, readers stop below it: nothing from above is thrown away, however old it looks."""
    await Pruning(postgres, days=7).run()
    async with postgres.write() as open_one:
        await open_one.execute(postgres.sql(EVENT), {"ref": 1, "age_ms": 9 * DAY_MS})
        numbers = await happen(postgres, 9, 9)
        assert await Pruning(postgres, days=7).run() == 0
    assert len(await left(postgres)) == len(numbers) + 1
    assert await Pruning(postgres, days=7).run() == 3


async def test_one_process_at_a_time(postgres: Database):
    """Whoever finds another one at it leaves it to that one."""
    await happen(postgres, 9)
    async with postgres.write() as other:
        await other.execute(text("SELECT 1 FROM feed_horizon FOR UPDATE"))
        assert await Pruning(postgres, days=7).run() == 0
    assert await Pruning(postgres, days=7).run() == 1


async def restored(db: Database) -> Position:
    """As after restoring a dump into another, younger cluster: a position and events with numbers from far ahead."""
    await happen(db, 1, 1, 1)
    await Pruning(db, days=7).run()
    await change(db, "UPDATE feed_horizon SET epoch = '7000000000000000000:1:16384', xid = '900000', seq = 1")
    await change(db, "UPDATE events SET xid = CAST('1000000' AS xid8)")
    return Position("1000000", 2, "7000000000000000000:1:16384")


async def test_a_position_of_another_cluster_means_list_again(postgres: Database):
    """Wherever this cluster's numbers are; from then on readers hear of what happens here, and of that only."""
    position = await restored(postgres)
    lost = await read(postgres, position)
    assert isinstance(lost, Resync)
    await happen(postgres, 0)
    assert await read(postgres, lost.position) == [1]
    assert isinstance(await read(postgres, Position("1", 2, position.epoch)), Resync)
    assert isinstance(await read(postgres, Position("1000000", 2, lost.position.epoch)), Resync)
    assert isinstance(await read(postgres, Position("1", 2, "")), Resync)


async def test_a_restored_copy_is_another_database(
    new_postgres_database: Callable[..., str], postgres_database_url: str
):
    """In the same cluster too, where transaction numbers go on: the copy does not know what happened after it."""
    original = Database.open(postgres_database_url)
    feed = Feed(original, poll_seconds=1)
    before = await feed.tail()
    await happen(original, 0)
    assert await read(original, before) == [1]
    await original.close()  # nobody may be connected to what is copied
    copy = Database.open(new_postgres_database(template=str(make_url(postgres_database_url).database)))
    lost = await read(copy, before)
    assert isinstance(lost, Resync)
    await happen(copy, 0)
    assert await read(copy, lost.position) == [1]
    await copy.close()


async def test_events_of_another_cluster_are_thrown_away(postgres: Database):
    """They would come up when this cluster reaches their numbers. What happened here stays, and the horizon is ours."""
    await restored(postgres)
    position = await Feed(postgres, poll_seconds=1).tail()
    ours = await happen(postgres, 0, 0, 0)
    assert await Pruning(postgres, days=7, batch=2).run() == 3
    assert await left(postgres) == ours
    assert await read(postgres, position) == [1, 2, 3]
    async with postgres.read() as connection:
        [row] = (await connection.execute(text("SELECT epoch, CAST(xid AS text) AS xid, seq FROM feed_horizon"))).all()
    assert tuple(row) == (position.epoch, "0", 0)
