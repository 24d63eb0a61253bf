"""Whether a caller could tell somebody else's id from one that does not exist by the time of the answer.

    python -m bench.foreign_ids [--rounds 5] [--requests 2000] [--database URL]

Runs a relay in this process, stores a submission and a task of one person, and has another person ask for them and
for ids that nobody has, by turns, so that whatever disturbs the machine disturbs both. Prints the medians of each
round. Exits with 1 if they are more than 5 % apart over all rounds. Needs the development dependencies.
"""

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path

from relay.storage import schema
from relay.storage.engine import Database
from relay.telemetry import configure_logging
from tests.support.gateway import Gateway, small_world

LIMIT = 0.05
STORED = 200

OPERATIONS = {
    "show a submission": ("GET", "/api/feedback/{submission}"),
    "retry a submission": ("POST", "/api/feedback/{submission}/retry"),
    "rate a task": ("POST", "/api/feedback"),
    "targets of an answer": ("GET", "/api/answers/{answer}/targets"),
    "targets of a conversation": ("GET", "/api/conversations/{answer}/targets"),
}


class Ids:
    """Ids of one kind, foreign or absent: as many of each, of the same length."""

    def __init__(self, submissions: list[str], tasks: list[str]) -> None:
        self.submissions = submissions
        self.tasks = tasks

    def any(self, chance: random.Random) -> tuple[str, str]:
        return chance.choice(self.submissions), chance.choice(self.tasks)


async def store(gateway: Gateway) -> Ids:
    """Submissions and tasks of alice, whom nobody else may notice."""
    ids = Ids([], [])
    for _ in range(STORED):
        submission, task = str(uuid.uuid4()), uuid.uuid4().hex
        recorded = await gateway.record(task, answerId=task, conversationId=task)
        assert recorded.status == 201, recorded.body
        rated = await gateway.rate(task, id=submission, wait="respond-async")
        assert rated.status in {201, 202}, rated.body
        ids.submissions.append(submission)
        ids.tasks.append(task)
    # Bob is somebody too, so that his requests go all the way to the database.
    await gateway.record("of-bob", sub="bob")
    return ids


async def ask(gateway: Gateway, token: str, operation: str, submission: str, task: str) -> tuple[float, bytes]:
    """How long one answer took, in seconds, and its body."""
    method, path = OPERATIONS[operation]
    url = f"http://127.0.0.1:{gateway.port}" + path.format(submission=submission, answer=task)
    body = {"id": str(uuid.uuid4()), "taskId": task, "rating": "up"} if operation == "rate a task" else None
    started = time.perf_counter()
    # Not Caller.call: checking each answer against the contract takes longer than the answer.
    async with gateway._http.request(  # noqa: SLF001 - see above
        method, url, json=body, headers={"Authorization": f"Bearer {token}"}
    ) as response:
        seen = await response.read()
    took = time.perf_counter() - started
    assert response.status == 404, seen
    return took, seen


async def one_round(gateway: Gateway, operation: str, kinds: dict[str, Ids], requests: int) -> dict[str, list[float]]:
    """Pairs of requests; which of a pair goes first is left to chance."""
    chance = random.Random(requests)
    token = gateway.token("bob")
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    bodies = set()
    for _ in range(requests):
        order = list(kinds)
        chance.shuffle(order)
        for kind in order:
            took, body = await ask(gateway, token, operation, *kinds[kind].any(chance))
            times[kind].append(took)
            bodies.add(body)
    assert len(bodies) == 1, "the answers differ in their bytes"
    return times


def row(operation: str, number: str, times: dict[str, list[float]]) -> float:
    foreign, absent = (statistics.median(times[kind]) for kind in ("foreign", "absent"))
    apart = foreign / absent - 1
    print(f"{operation:<26} {number:>5} {foreign * 1e6:>11.1f} {absent * 1e6:>10.1f} {apart:>+8.2%}", flush=True)
    return abs(apart)


async def measure(gateway: Gateway, rounds: int, requests: int) -> bool:
    foreign = await store(gateway)
    absent = Ids([str(uuid.uuid4()) for _ in range(STORED)], [uuid.uuid4().hex for _ in range(STORED)])
    kinds = {"foreign": foreign, "absent": absent}
    print(f"{'operation':<26} {'round':>5} {'foreign, us':>11} {'absent, us':>10} {'apart':>8}")
    good = True
    for operation in OPERATIONS:
        await one_round(gateway, operation, kinds, requests // 10 or 1)  # warm
        together: dict[str, list[float]] = {kind: [] for kind in kinds}
        for number in range(1, rounds + 1):
            gc.collect()
            times = await one_round(gateway, operation, kinds, requests)
            row(operation, str(number), times)
            for kind, some in times.items():
                together[kind] += some
        good = row(operation, "all", together) <= LIMIT and good
    return good


async def run(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as directory:
        url = arguments.database or f"sqlite:///{directory}/relay.db"
        db = Database.open(url)
        await schema.migrate(db)
        await db.close()
        print(
            f"load before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores; {arguments.rounds} rounds of "
            f"{arguments.requests} pairs; {url.partition(':')[0]}"
        )
        async with small_world(Path(directory), url, worker=False, schedule='["1h"]') as (gateway, _):
            good = await measure(gateway, arguments.rounds, arguments.requests)
        print(f"load after: {os.getloadavg()[0]:.2f}; {'within' if good else 'NOT within'} {LIMIT:.0%}")
    return 0 if good else 1


def main() -> int:
    configure_logging("error")  # a line for each request would be measured too
    parser = argparse.ArgumentParser(description="Times of answers for foreign and for absent ids.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="pairs of requests in a round")
    parser.add_argument("--database", help="the URL of an empty database; SQLite in a temporary file if left out")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
