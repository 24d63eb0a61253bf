"""What the store keeps and shows, on both engines."""

import pytest

from registry.protocols.contract import Rated
from relay.receiver import Ratings
from relay.storage.engine import Database

ID = "0b8f1f0e-0b0e-4a44-9c7e-52a9a7b9a001"
RATED = Rated(ID, "run-1", "up", "hunter2 is my password")


@pytest.fixture
async def ratings(database: Database) -> Ratings:
    ratings = Ratings(database)
    await ratings.prepare()
    return ratings


async def test_adding_twice_gives_the_first(ratings: Ratings):
    """The row that stands comes back, so that the caller can compare what was sent with it."""
    first = await ratings.add("ok_alice", RATED)
    assert await ratings.add("ok_alice", Rated(ID, "run-2", "down", None)) == first
    assert await ratings.find("ok_alice", ID) == first
    assert first.rated == RATED


async def test_times_are_the_databases(ratings: Ratings, database: Database):
    """`created_at` lies between two readings of the database's clock."""

    async def now() -> int:
        async with database.read() as connection:
            return int((await connection.execute(database.sql("SELECT {now}"))).scalar_one())

    before = await now()
    row = await ratings.add("ok_alice", RATED)
    assert before <= row.created_at <= await now()


async def test_what_is_not_there(ratings: Ratings):
    """Looking for, resolving and listing nothing finds nothing, under a foreign owner as well."""
    await ratings.add("ok_alice", RATED)
    assert await ratings.find("ok_bob", ID) is None
    assert await ratings.resolve("ok_bob", ID, "x") is None
    assert await ratings.newest("ok_bob") == []


async def test_the_rows_of_one_task(ratings: Ratings):
    """Newest first, of this owner and this task alone."""
    for n, (owner, task) in enumerate([("ok_alice", "run-1"), ("ok_bob", "run-1"), ("ok_alice", "run-2")] * 2):
        await ratings.add(owner, Rated(f"0b8f1f0e-0b0e-4a44-9c7e-00000000000{n}", task, "up", None))
    assert [row.rated.id[-1] for row in await ratings.of_task("ok_alice", "run-1")] == ["3", "0"]


async def test_a_row_does_not_show_what_people_wrote(ratings: Ratings):
    """Neither comment nor resolution stands in a repr, which may reach a log."""
    await ratings.add("ok_alice", RATED)
    assert "hunter2" not in repr(await ratings.resolve("ok_alice", ID, "hunter2"))
