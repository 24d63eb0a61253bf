"""How everything stands, for who scrapes: read when asked, and not more often than it costs.

The statements go by the partial indexes of what waits alone, so that years of finished deliveries cost nothing.
"""

import asyncio
from typing import Final

from sqlalchemy import RowMapping
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from registry.registrations import Registrations
from relay.clock import Clock
from relay.identity.keys import KeySets
from relay.operators.agents.health import count_statement
from relay.storage.engine import Database
from relay.telemetry import Metrics
from relay.telemetry.gauges import OpenJobs, Waiting

MOST_SECONDS: Final = 5.0
"""How long a scrape waits for the database; then its numbers are unknown."""

KEPT_SECONDS: Final = 1.0
KEPT_TIMES: Final = 20
"""Numbers are good for a second, or for so many times what reading them took: at most a twentieth of one connection."""

BREAKERS: Final = """
SELECT agent,
    CASE WHEN open_until IS NULL THEN 'closed' WHEN open_until > {now} THEN 'open' ELSE 'half_open' END AS state
FROM agent_breakers
"""

OPEN_JOBS: Final = """
SELECT kind, count(*) AS total, min(updated_at) AS moved_at FROM jobs WHERE finished_at IS NULL GROUP BY kind
"""


class Standing:
    """Sets the gauges of one process. Scrapes that come together read once."""

    def __init__(self, db: Database, registry: Registrations, keys: KeySets, clock: Clock, metrics: Metrics) -> None:
        self._db = db
        self._registry = registry
        self._keys = keys
        self._clock = clock
        self._metrics = metrics
        self._turn = asyncio.Lock()
        self._good_until = float("-inf")

    async def refresh(self) -> None:
        """Bring every gauge up to date. Never raises for what the database does."""
        gauges = self._metrics.gauges
        for status in self._keys.status():
            gauges.keys(status.issuer, age_seconds=status.age_seconds, failing=status.problem is not None)
        gauges.connections(self._db.connections_in_use)
        async with self._turn:
            if self._clock.monotonic() < self._good_until:
                return
            try:
                async with asyncio.timeout(MOST_SECONDS):
                    await self._read()
            except (DBAPIError, PoolTimeoutError, OSError):  # a TimeoutError is an OSError
                gauges.database_away()
                self._good_until = self._clock.monotonic() + KEPT_SECONDS

    async def _read(self) -> None:
        before = self._clock.monotonic()
        async with self._db.read() as connection:
            now = await self._db.now_ms(connection)
            waiting = (await connection.execute(self._db.sql(count_statement(by={})))).mappings().all()
            breakers = (await connection.execute(self._db.sql(BREAKERS))).all()
            jobs = (await connection.execute(self._db.sql(OPEN_JOBS))).all()
        after = self._clock.monotonic()
        agents = list(self._registry.snapshot)
        self._metrics.introduce(agents)
        self._metrics.gauges.database(
            agents=agents,
            waiting=[_waiting(row, now) for row in waiting],
            breakers={row.agent: row.state for row in breakers},
            jobs=[OpenJobs(row.kind, row.total, max(0, now - row.moved_at) / 1000) for row in jobs],
            seconds=after - before,
        )
        self._good_until = after + max(KEPT_SECONDS, KEPT_TIMES * (after - before))


def _waiting(row: RowMapping, now: int) -> Waiting:
    return Waiting(row["agent"], row["state"], row["total"], max(0, now - row["oldest"]) / 1000)
