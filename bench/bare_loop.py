"""Post COUNT ratings to ORIGIN, so many at a time, and print how many a second: the floor of any courier.

python -m bench.bare_loop ORIGIN COUNT IN_FLIGHT [CA_FILE]
"""

import asyncio
import ssl
import sys
import time
import uuid

import aiohttp
import uvloop


async def run(origin: str, count: int, in_flight: int, ca_file: str | None) -> float:
    bodies = iter(
        [(i := str(uuid.uuid4()), b'{"id":"%b","taskId":"t","rating":"up"}' % i.encode()) for _ in range(count)]
    )
    tls = ssl.create_default_context(cafile=ca_file) if ca_file else None
    connector = aiohttp.TCPConnector(limit=in_flight)
    async with aiohttp.ClientSession(connector=connector) as http:

        async def post() -> None:
            for identifier, body in bodies:
                headers = {
                    "Content-Type": "application/json",
                    "Idempotency-Key": identifier,
                    "Authorization": "Bearer x",
                }
                async with http.post(f"{origin}/api/feedback", data=body, headers=headers, ssl=tls or True) as answered:
                    await answered.read()
                    assert answered.status == 201

        started = time.perf_counter()
        await asyncio.gather(*(post() for _ in range(in_flight)))
        return count / (time.perf_counter() - started)


if __name__ == "__main__":
    origin, count, in_flight, *ca = sys.argv[1:]
    print(uvloop.run(run(origin, int(count), int(in_flight), ca[0] if ca else None)))
