"""A bound that changes while it binds."""

import asyncio

from relay.delivery.turns import Turns


class Work:
    """Pieces of work that wait for their turn, and then for their end."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.turns = Turns(lambda: self.most)
        self.inside: list[int] = []
        self.ends: dict[int, asyncio.Event] = {}

    async def piece(self, number: int) -> None:
        self.ends[number] = asyncio.Event()
        async with self.turns:
            self.inside.append(number)
            await self.ends[number].wait()
            self.inside.remove(number)


async def settled() -> None:
    """Let everything that can go on go on."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_no_more_than_the_bound_come_in_and_in_their_order():
    """A place that is given up goes to whoever has waited longest."""
    work = Work(2)
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(work.piece(number))
        await settled()
        assert work.inside == [0, 1]
        work.ends[1].set()
        await settled()
        assert work.inside == [0, 2]
        for end in work.ends.values():
            end.set()


async def test_the_bound_may_be_lowered_and_raised():
    """Nobody is thrown out; until there is room nobody comes in, and a raised bound lets in as many at once."""
    work = Work(3)
    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(work.piece(number))
        await settled()
        work.most = 1
        for number in (3, 4, 5, 6):
            group.create_task(work.piece(number))
        work.ends[0].set()
        await settled()
        assert work.inside == [1, 2]
        work.most = 4
        work.ends[1].set()
        await settled()
        assert work.inside == [2, 3, 4, 5]
        for end in work.ends.values():
            end.set()


async def test_a_raised_bound_is_seen_by_who_comes():
    """Those who have waited longer come in first all the same."""
    work = Work(1)
    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(work.piece(number))
        await settled()
        work.most = 3
        group.create_task(work.piece(2))
        await settled()
        assert sorted(work.inside) == [0, 1, 2]
        for end in work.ends.values():
            end.set()


async def test_who_is_gone_takes_no_place():
    """Cancelled while they waited, or in the moment in which they were called."""
    work = Work(1)
    async with asyncio.TaskGroup() as group:
        group.create_task(work.piece(0))
        waiting, called, last = (group.create_task(work.piece(number)) for number in (1, 2, 3))
        await settled()
        waiting.cancel()
        await settled()
        work.ends[0].set()
        await asyncio.sleep(0)
        assert work.inside == []
        called.cancel()
        await settled()
        assert work.inside == [3]
        work.ends[3].set()
        await last
