"""Destinations that take requests and never answer, beside one that is well."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from relay.config import load
from tests.support.gateway import gateway, write_config
from tests.support.issuer import TestIssuer
from tests.support.specialist import Held, Specialist

STALLED = [f"stalled{n}" for n in range(20)]
IN_FLIGHT = 2
RATINGS = 30


async def test_twenty_stalled_agents_beside_a_healthy_one(tmp_path: Path, database_url: str):
    """With a pool of two connections: while each of the twenty hangs with all that it may have in flight, every rating
    of the healthy one is saved; so those that hang hold neither a connection nor the worker. Then they end as well.
    """
    held = Held()
    async with AsyncExitStack() as stack:
        stalled = [await stack.enter_async_context(Specialist(held)) for _ in STALLED]
        healthy = await stack.enter_async_context(Specialist())
        issuer = await stack.enter_async_context(TestIssuer())
        origins = {agent: specialist.origin for agent, specialist in zip(STALLED, stalled, strict=True)}
        path = write_config(
            tmp_path,
            database_url,
            issuer,
            {**origins, "healthy": healthy.origin},
            in_flight=IN_FLIGHT,
            deadline=60,
            lease=120,
        )
        path.write_text(path.read_text().replace("[database]\n", "[database]\npool_size = 2\n"))
        relay = await stack.enter_async_context(gateway(load(path, {}), issuer))
        stack.callback(held.let_go)
        waiting = []
        for agent in STALLED:
            for n in range(IN_FLIGHT + 1):
                await relay.record(f"{agent}-{n}", agent=agent)
                waiting.append((await relay.rate(f"{agent}-{n}", wait="respond-async")).json["id"])
        await asyncio.gather(*(specialist.wait_for_posts(IN_FLIGHT) for specialist in stalled))

        await asyncio.gather(*(relay.record(f"t{n}", agent="healthy") for n in range(RATINGS)))
        answers = await asyncio.gather(*(relay.rate(f"t{n}", wait="respond-async") for n in range(RATINGS)))
        for answered in answers:
            await relay.until(answered.json["id"], "saved")
        assert len(healthy.posts) == RATINGS
        assert [len(specialist.posts) for specialist in stalled] == [IN_FLIGHT] * len(STALLED)

        held.let_go()
        for submission in waiting:
            await relay.until(submission, "saved")
