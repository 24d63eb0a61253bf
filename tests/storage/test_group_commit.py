"""Group commit: every row gets its own result, whatever shares its batch, fails beside it, or hangs up."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from relay.storage.engine import Database
from relay.storage.group_commit import GroupCommit, QueueFullError


@dataclass(frozen=True, slots=True)
class Row:
    """A row that no two batches share; a bad one cannot be written, and takes its batch with it."""

    number: int
    keys: frozenset[str] = frozenset()
    bad: bool = False


class BadRowError(Exception):
    """A constraint of the database, as it names the first row that violates it."""


@dataclass
class Table:
    """Where rows are written: all of a batch or none. Each write yields to the loop, so that others may arrive."""

    batches: list[list[Row]] = field(default_factory=list)
    committed: list[Row] = field(default_factory=list)
    gate: asyncio.Event | None = None
    writing: bool = False

    async def write(self, batch: Sequence[Row]) -> Sequence[int]:
        assert not self.writing, "two flushes at once"
        self.writing = True
        self.batches.append(list(batch))
        await asyncio.sleep(0)
        if self.gate is not None:
            await self.gate.wait()
        self.writing = False
        for row in batch:
            if row.bad:
                raise BadRowError(row.number)
        self.committed += batch
        return [row.number for row in batch]


def keys(row: Row) -> frozenset[Hashable]:
    return frozenset(row.keys)


@asynccontextmanager
async def flushing(table: Table, **limits: int) -> AsyncIterator[GroupCommit[Row, int]]:
    """A group that flushes while the block runs."""
    group = GroupCommit(table.write, keys, **limits)
    async with asyncio.TaskGroup() as tasks:
        flusher = tasks.create_task(group.run())
        yield group
        flusher.cancel()


async def submitted(rows: Sequence[Row], table: Table, **limits: int) -> list[int | BaseException]:
    """What each row's caller got, all of them asking at once."""
    async with flushing(table, **limits) as group:
        return await asyncio.gather(*(group.submit(row) for row in rows), return_exceptions=True)


kinds = st.tuples(
    st.frozensets(st.sampled_from("abcde"), max_size=3),
    st.sampled_from([False, False, False, True]),
)
some_bad = st.lists(kinds, max_size=30).map(lambda rows: [Row(n, *kind) for n, kind in enumerate(rows)])
sizes = st.integers(min_value=1, max_value=6)


@given(some_bad, sizes)
def test_every_row_gets_exactly_its_own_result(rows: list[Row], most: int):
    """Each good row is committed once and told so; each bad row fails with its own error, and alone."""
    table = Table()
    results = asyncio.run(submitted(rows, table, most=most))
    assert len(results) == len(rows)
    for row, result in zip(rows, results, strict=True):
        if row.bad:
            assert isinstance(result, BadRowError)
            assert result.args == (row.number,)
        else:
            assert result == row.number
    assert Counter(table.committed) == Counter(row for row in rows if not row.bad)


@given(some_bad, sizes)
def test_no_batch_holds_a_key_twice_or_too_many_rows(rows: list[Row], most: int):
    """Rows that share a key go into different flushes, so that one statement never meets both."""
    table = Table()
    asyncio.run(submitted(rows, table, most=most))
    for batch in table.batches:
        assert 0 < len(batch) <= most
        held = [key for row in batch for key in row.keys]
        assert len(held) == len(set(held))


@given(some_bad, sizes)
def test_rows_that_share_a_key_are_written_in_the_order_they_came(rows: list[Row], most: int):
    """Whoever asked first about a key is first, through failures as well."""
    table = Table()
    asyncio.run(submitted(rows, table, most=most))
    for key in "abcde":
        written = [row.number for row in table.committed if key in row.keys]
        assert written == sorted(written)


@given(some_bad, sizes)
def test_a_failed_batch_is_written_again_row_by_row(rows: list[Row], most: int):
    """Right after it and in its order; a row that fails by itself is not tried again."""
    table = Table()
    asyncio.run(submitted(rows, table, most=most))
    batches = iter(table.batches)
    for batch in batches:
        if len(batch) > 1 and any(row.bad for row in batch):
            assert [next(batches) for _ in batch] == [[row] for row in batch]


@given(st.integers(0, 30), sizes)
def test_rows_that_share_nothing_fill_their_batches(count: int, most: int):
    """No row waits for want of company or with room to spare: as few flushes as the size allows."""
    table = Table()
    asyncio.run(submitted([Row(n) for n in range(count)], table, most=most))
    assert len(table.batches) == -(-count // most)


@pytest.fixture
def table() -> Table:
    """A table whose first write waits until the test opens the gate."""
    return Table(gate=asyncio.Event())


def opened(table: Table) -> None:
    assert table.gate is not None
    table.gate.set()


async def until(holds: Callable[[], bool]) -> None:
    """Let everybody else run until it holds; the test's timeout bounds the wait."""
    while not holds():  # noqa: ASYNC110 - what is waited for is the state of the others
        await asyncio.sleep(0)


async def test_what_arrives_during_a_flush_forms_the_next_one(table: Table):
    """The first goes alone and at once; those that come while it is under way share the second."""
    async with flushing(table) as group, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(group.submit(Row(0)))
        await until(lambda: len(table.batches) == 1)
        others = [tasks.create_task(group.submit(Row(n))) for n in range(1, 6)]
        await until(lambda: len(group) == 5)
        assert not first.done()
        opened(table)
        assert [await task for task in (first, *others)] == [0, 1, 2, 3, 4, 5]
    assert [len(batch) for batch in table.batches] == [1, 5]


async def test_a_row_that_has_to_wait_for_a_key_holds_nobody_else_up(table: Table):
    """Others pass it by; it keeps its place before later rows of the same key."""
    async with flushing(table) as group, asyncio.TaskGroup() as tasks:
        asked = [
            Row(0),
            Row(1, frozenset("a")),
            Row(2, frozenset("ab")),
            Row(3, frozenset("b")),
            Row(4, frozenset("c")),
        ]
        tasks.create_task(group.submit(asked[0]))
        await until(lambda: len(table.batches) == 1)
        for row in asked[1:]:
            tasks.create_task(group.submit(row))
        await until(lambda: len(group) == 4)
        opened(table)
    assert [[row.number for row in batch] for batch in table.batches] == [[0], [1, 4], [2], [3]]


async def test_past_the_capacity_a_row_is_refused_and_not_stored(table: Table):
    """The refusal comes at once, those that wait are not affected, and when there is room again rows are taken."""
    async with flushing(table, capacity=3) as group, asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(group.submit(Row(0)))]
        await until(lambda: len(table.batches) == 1)
        waiting += [tasks.create_task(group.submit(Row(n))) for n in range(1, 4)]
        await until(lambda: len(group) == 3)
        for number in (90, 91):
            with pytest.raises(QueueFullError):
                await group.submit(Row(number))
        opened(table)
        assert [await task for task in waiting] == [0, 1, 2, 3]
        assert await group.submit(Row(4)) == 4
    assert [row.number for row in table.committed] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("bad", [False, True], ids=["good", "bad"])
async def test_callers_that_hang_up_take_nobody_with_them(table: Table, bad: bool):  # noqa: FBT001
    """One in the flush under way, one in the queue, each possibly bad: the rest get their results, later ones too."""
    async with flushing(table) as group, asyncio.TaskGroup() as tasks:
        quitter = tasks.create_task(group.submit(Row(0, bad=bad)))
        await until(lambda: len(table.batches) == 1)
        stayers = [tasks.create_task(group.submit(Row(n))) for n in (1, 2)]
        quitters = [quitter, tasks.create_task(group.submit(Row(3, bad=bad)))]
        stayers.append(tasks.create_task(group.submit(Row(4))))
        await until(lambda: len(group) == 4)
        for task in quitters:
            task.cancel()
        opened(table)
        assert [await task for task in stayers] == [1, 2, 4]
        assert await group.submit(Row(5)) == 5
        assert all(task.cancelled() for task in quitters)


async def test_rows_that_wait_before_anybody_flushes_are_written_when_somebody_does(table: Table):
    """A row that arrives before the loop runs is not forgotten."""
    opened(table)
    group = GroupCommit(table.write, keys)
    async with asyncio.TaskGroup() as tasks:
        early = tasks.create_task(group.submit(Row(0)))
        await until(lambda: len(group) == 1)
        flusher = tasks.create_task(group.run())
        assert await early == 0
        flusher.cancel()


async def test_a_database_that_is_away_is_waited_for_once(database: Database):
    """A missing table, a value that breaks a rule: each row is tried alone. A lock that is not given up, a server that
    is gone: no row is tried again, for each would wait as long."""  # noqa: D209
    batches: list[int] = []
    statement = ""

    async def write(batch: Sequence[int]) -> Sequence[int]:
        batches.append(len(batch))
        async with database.write() as connection:
            if statement == "away":
                raise await away(database)
            await connection.execute(text(statement))
        return batch

    async def three() -> list[int | BaseException]:
        group: GroupCommit[int, int] = GroupCommit(write, lambda _: ())
        async with asyncio.TaskGroup() as tasks:
            flusher = tasks.create_task(group.run())
            results = await asyncio.gather(*(group.submit(n) for n in range(3)), return_exceptions=True)
            flusher.cancel()
        return results

    statement = "SELECT 1 FROM no_such_table"
    assert all(isinstance(result, DBAPIError) for result in await three())
    assert batches == [3, 1, 1, 1]
    batches.clear()
    statement = "away"
    assert all(isinstance(result, DBAPIError) for result in await three())
    assert batches == [3]


async def away(database: Database) -> DBAPIError:
    """What SQLAlchemy raises when a lock is not had, or when the server has ended the connection."""
    try:
        if database.dialect == "sqlite":
            other = sqlite3.connect(database.url.database or "", timeout=0)
            try:
                other.execute("BEGIN IMMEDIATE")  # while the batch holds the lock
            except sqlite3.Error as error:
                raise DBAPIError.instance(None, None, error, sqlite3.Error) from error
            finally:
                other.close()
        async with database.read() as connection:
            await connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
    except DBAPIError as error:
        return error
    raise AssertionError("it was there")
