"""A live rating: how long a person waits for ``saved`` through the relay, and directly at the specialist."""

import statistics
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from bench import stage
from bench.results import Measured


async def live(directory: Path, cluster: stage.Cluster, rounds: int, count: int) -> list[Measured]:
    """One rating after the other, by turns through the relay and directly; p50 and p99 of each round."""
    async with AsyncExitStack() as stack:
        specialist = await stack.enter_async_context(stage.server("specialist", directory, database=cluster.database()))
        world = await stack.enter_async_context(
            stage.world(
                directory,
                cluster.database(),
                agents={"literature": f"http://localhost:{specialist}"},
                schedule='["0s", "1h"]',
            )
        )
        relay = await stack.enter_async_context(stage.relay(world.config, "--worker"))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        p50s, p99s = ([], []), ([], [])
        for number in range(rounds + 1):
            await stage.tasks(world, f"l{number}", count)
            times: tuple[list[float], list[float]] = ([], [])
            for n in range(count):
                body = {"id": str(uuid.uuid4()), "taskId": f"l{number}-{n}", "rating": "up"}
                token = world.tokens[n % stage.OWNERS]
                times[0].append(await _post(http, relay, body, token))
                times[1].append(await _post(http, specialist, {**body, "id": str(uuid.uuid4())}, "x"))
            if number:
                for side in (0, 1):
                    ordered = sorted(times[side])
                    p50s[side].append(statistics.median(ordered) * 1000)
                    p99s[side].append(ordered[int(len(ordered) * 0.99)] * 1000)
    return [
        Measured("a live rating, p50", "the same post made directly", "ms", *p50s, wanted=3, less=True),
        Measured("a live rating, p99", "the same post made directly", "ms", *p99s, wanted=5, less=True),
    ]


async def _post(http: aiohttp.ClientSession, port: int, body: dict[str, str], token: str) -> float:
    started = time.perf_counter()
    async with http.post(
        f"http://localhost:{port}/api/feedback", json=body, headers={"Authorization": f"Bearer {token}"}
    ) as answered:
        await answered.read()
        if answered.status != 201:
            raise RuntimeError(f"{answered.status}: {await answered.text()}")
    return time.perf_counter() - started
