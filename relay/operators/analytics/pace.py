"""How many of a tenant's submissions were saved, minute by minute, until now."""

from dataclasses import dataclass
from typing import Final

from relay.storage.engine import Database

MINUTE_MS: Final = 60_000

_SAVED: Final = """
SELECT (d.saved_at - :since) / 60000 AS minute, count(*) AS total
FROM deliveries d WHERE d.tenant = :tenant AND d.saved_at >= :since AND d.saved_at < :until GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Pace:
    """``saved`` counts one minute after the other from ``since`` on; the last has not ended by ``now``."""

    now: int
    since: int
    saved: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.saved)


async def pace(db: Database, tenant: str, *, minutes: int) -> Pace:
    """The last so many minutes, by the database's clock, the one that has begun included."""
    async with db.read() as connection:
        now = await db.now_ms(connection)
        until = (now // MINUTE_MS + 1) * MINUTE_MS
        since = until - minutes * MINUTE_MS
        found = await connection.execute(db.sql(_SAVED), {"tenant": tenant, "since": since, "until": until})
        counts = {int(row.minute): int(row.total) for row in found}
    return Pace(now, since, tuple(counts.get(minute, 0) for minute in range(minutes)))
