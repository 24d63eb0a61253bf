"""The background worker: finds what is due, lets the courier carry it, and picks up what a dead process left."""

import asyncio
from contextlib import suppress

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.courier import Courier
from relay.delivery.model import Settlement
from relay.delivery.schedule import pause_seconds
from relay.delivery.settling import Settlements, StaleRegistryError
from relay.delivery.store import Deliveries
from relay.redaction import outline

log = structlog.get_logger(__name__)


class Worker:
    """Drains the outbox until it is stopped. Any number of them run side by side on PostgreSQL."""

    def __init__(
        self,
        deliveries: Deliveries,
        courier: Courier,
        settlements: Settlements,
        registry: Registrations,
        clock: Clock,
        *,
        poll_seconds: float,
    ) -> None:
        self._deliveries = deliveries
        self._courier = courier
        self._settlements = settlements
        self._registry = registry
        self._clock = clock
        self._poll = poll_seconds
        self._wake = asyncio.Event()
        self._stopped = False
        courier.on_room(self.wake)

    def wake(self) -> None:
        """Look now instead of at the next poll."""
        self._wake.set()

    def stop(self) -> None:
        """Claim nothing more: `run` returns after the round that is under way."""
        self._stopped = True
        self.wake()

    async def run(self) -> None:
        """Work until `stop`. A database that is away is waited for, with growing pauses."""
        failures = 0
        while not self._stopped:
            self._wake.clear()
            try:
                await self.work_once()
                failures = 0
            except (DBAPIError, PoolTimeoutError, OSError) as error:
                failures += 1
                log.warning("database_unavailable", failures=failures, **outline(error))
                await asyncio.sleep(pause_seconds(failures))
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._wake.wait()

    async def work_once(self) -> int:
        """One round: refresh the registry, bury lost claims, claim what is due. How many were claimed."""
        await self._registry.refresh()
        for lost in await self._deliveries.expired():
            await self._bury(lost)
        snapshot = self._registry.snapshot
        before = self._clock.monotonic()
        room = self._courier.room(snapshot.keys())
        claimed = await self._deliveries.claim_due(room, snapshot, before)
        self._courier.carry(claimed)
        self._courier.expect_more(
            {c.claim.agent for c in claimed} | {agent for agent, most in room.items() if not most}
        )
        return len(claimed)

    async def _bury(self, lost: Settlement) -> None:
        """One that cannot be written must not keep the others from being claimed."""
        try:
            settled = await self._settlements.settle_once(lost)
        except (DBAPIError, PoolTimeoutError, StaleRegistryError) as error:
            log.warning("claim_not_buried", agent=lost.claim.agent, **outline(error))
            return
        if settled.state is not None:
            log.warning("claim_lost", agent=lost.claim.agent, number=lost.claim.number, state=settled.state)
