"""What a worker does beside delivering: erase what has been kept long enough, and throw old events away."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import structlog
from sqlalchemy.exc import SQLAlchemyError

from relay.redaction import outline
from relay.retention.pruning import Pruning
from relay.retention.sweeping import Sweep

log = structlog.get_logger(__name__)

ACTOR = "retention"
"""Who erases by age, in the audit log, when nobody asked for it by hand."""


class Housekeeping:
    """Runs beside a worker; in any number of processes at once."""

    def __init__(
        self,
        sweep: Sweep,
        pruning: Pruning,
        *,
        every_seconds: float,
        on_change: Callable[[], None] = lambda: None,
        also: Mapping[str, Callable[[], Awaitable[object]]] | None = None,
    ) -> None:
        """``also``: what other parts have to throw away, by their names in the log."""
        self._sweep = sweep
        self._pruning = pruning
        self._every = every_seconds
        self._on_change = on_change
        self._also = also or {}

    async def run(self) -> None:
        """Once now, and then every so many seconds, for ever."""
        while True:
            await self._try("retention", self.erase)
            await self._try("events", self._pruning.run)
            for what, step in self._also.items():
                await self._try(what, step)
            await asyncio.sleep(self._every)

    async def erase(self) -> None:
        """Erase what is due, and say in the log how much it was."""
        for tenant, agents in (await self._sweep.run()).items():
            log.info("retention_swept", tenant=tenant, erased=sum(agents.values()))
            self._on_change()

    async def _try(self, what: str, step: Callable[[], Awaitable[object]]) -> None:
        """A database that is away is no reason to end; what was not done is done the next time."""
        try:
            await step()
        except (SQLAlchemyError, OSError) as error:
            log.warning("housekeeping_failed", what=what, **outline(error))
