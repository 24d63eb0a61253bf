"""Accepting: what the relay stores a second, against handlers that do only a part of it."""

from contextlib import AsyncExitStack
from pathlib import Path

from bench import stage
from bench.results import Measured

CONNECTIONS = 32
WANTED = {"postgresql": (2.0, 0.50), "sqlite": (3.0, 0.45)}
MOST_PER_SECOND = 8_000
"""Tasks that are prepared for each second of a round: more than any machine here accepts."""


async def accept(engine: str, directory: Path, cluster: stage.Cluster, rounds: int, seconds: float) -> list[Measured]:
    """``respond-async``: authentication, provenance, submission and delivery committed, by `CONNECTIONS` at a time."""
    ours, bare = (_database(engine, directory, cluster, name) for name in ("relay", "bare"))
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(stage.world(directory, ours))
        ports = {
            "nothing stored": await stack.enter_async_context(stage.server("nothing", directory)),
            "one bare INSERT": await stack.enter_async_context(stage.server(engine, directory, database=bare)),
            "relay": await stack.enter_async_context(stage.relay(world.config)),
        }
        seen: dict[str, list[float]] = {name: [] for name in ports}
        for number in range(rounds + 1):
            await stage.tasks(world, f"r{number}", round(MOST_PER_SECOND * seconds))
            for name, port in ports.items():
                load = await stage.load(port, world, f"r{number}", number, seconds=seconds, connections=CONNECTIONS)
                if load.errors:
                    raise RuntimeError(f"{name}: {load.errors} requests failed")
                if number:  # the first round warms everything up
                    seen[name].append(load.per_second)
    return [
        Measured(
            f"accept, {engine}",
            "a bare INSERT",
            "requests/s",
            seen["relay"],
            seen["one bare INSERT"],
            wanted=WANTED[engine][0],
        ),
        Measured(
            f"accept, {engine}",
            "a handler that stores nothing",
            "requests/s",
            seen["relay"],
            seen["nothing stored"],
            wanted=WANTED[engine][1],
        ),
    ]


def _database(engine: str, directory: Path, cluster: stage.Cluster, name: str) -> str:
    return cluster.database() if engine == "postgresql" else f"sqlite:///{directory}/{name}.db"
