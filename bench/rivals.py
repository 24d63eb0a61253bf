"""Post COUNT ratings to ORIGIN as jobs of a general queue on PostgreSQL, and print how many a second.

    python -m bench.rivals pgqueuer|procrastinate ORIGIN COUNT IN_FLIGHT DATABASE

The jobs stand in the queue before the clock starts; one worker process takes them, as many at a time as the relay has
in flight. A job that raises is one that was not delivered: both queues then say so, and this program fails.
"""

import json
import sys
import time
import uuid
from collections.abc import Awaitable, Callable

import aiohttp
import uvloop

Post = Callable[[bytes], Awaitable[None]]

BATCH = 256
"""What pgqueuer takes at a time: the larger of 64 and 256 is the quicker one."""


def bodies(count: int) -> list[bytes]:
    return [b'{"id":"%b","taskId":"t","rating":"up"}' % str(uuid.UUID(int=n, version=4)).encode() for n in range(count)]


def posting(http: aiohttp.ClientSession, origin: str) -> Post:
    async def post(body: bytes) -> None:
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": json.loads(body)["id"],
            "Authorization": "Bearer x",
        }
        async with http.post(f"{origin}/api/feedback", data=body, headers=headers) as answered:
            acknowledged = json.loads(await answered.read())
            if answered.status != 201 or acknowledged["saved"] is not True:
                raise RuntimeError(f"{answered.status}")

    return post


async def pgqueuer(post: Post, count: int, in_flight: int, database: str) -> float:
    import asyncpg  # noqa: PLC0415 - one rival at a time
    from pgqueuer import AsyncpgPoolDriver, Job, PgQueuer, Queries  # noqa: PLC0415
    from pgqueuer.types import QueueExecutionMode  # noqa: PLC0415

    async with asyncpg.create_pool(database, min_size=4, max_size=10) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        payloads = bodies(count)
        for start in range(0, count, 1_000):
            part = payloads[start : start + 1_000]
            await queries.enqueue(["post"] * len(part), list(part), [0] * len(part))
        queue = PgQueuer(driver)

        @queue.entrypoint("post")
        async def deliver(job: Job) -> None:
            await post(job.payload or b"")

        started = time.perf_counter()
        await queue.run(batch_size=BATCH, mode=QueueExecutionMode.drain, max_concurrent_tasks=max(in_flight, 2 * BATCH))
        return count / (time.perf_counter() - started)


async def procrastinate(post: Post, count: int, in_flight: int, database: str) -> float:
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415 - one rival at a time

    app = App(connector=PsycopgConnector(conninfo=database))

    @app.task(name="post")
    async def deliver(body: str) -> None:
        await post(body.encode())

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await deliver.batch_defer_async(*({"body": body.decode()} for body in bodies(count)))
        started = time.perf_counter()
        await app.run_worker_async(concurrency=in_flight, wait=False, install_signal_handlers=False)
        return count / (time.perf_counter() - started)


RIVALS = {"pgqueuer": pgqueuer, "procrastinate": procrastinate}


async def run(name: str, origin: str, count: int, in_flight: int, database: str) -> float:
    seen = 0
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=in_flight)) as http:
        post = posting(http, origin)

        async def counted(body: bytes) -> None:
            nonlocal seen
            await post(body)
            seen += 1

        per_second = await RIVALS[name](counted, count, in_flight, database)
    if seen != count:
        raise RuntimeError(f"{name} delivered {seen} of {count}")
    return per_second


if __name__ == "__main__":
    name, origin, count, in_flight, database = sys.argv[1:]
    print(uvloop.run(run(name, origin, int(count), int(in_flight), database)))
