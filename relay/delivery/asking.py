"""Attempts that an owner asks for: by repeating, by pressing retry, or by coming back with a live token."""

import asyncio
from dataclasses import dataclass, field, replace

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from registry.model import AgentId, TokenExchange
from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.courier import Courier
from relay.delivery.model import Cause, DeliveryId
from relay.delivery.store import OWNER_GAP_MS, Deliveries
from relay.errors import Refusal
from relay.identity.model import OwnerTuple, Principal
from relay.identity.owners import Owners
from relay.identity.recents import Recents
from relay.redaction import outline

log = structlog.get_logger(__name__)

REMEMBERED = 10_000
MOST_ARRIVALS = 1_000
"""How many owners may wait to be looked up; beyond it one is forgotten, and looked up at their next request."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """An owner who is here, with their live token."""

    owner: OwnerTuple
    token: str = field(repr=False)


class Asking:
    """Makes attempts because an owner asks. One for each process."""

    def __init__(
        self, deliveries: Deliveries, courier: Courier, owners: Owners, registry: Registrations, clock: Clock
    ) -> None:
        self._deliveries = deliveries
        self._courier = courier
        self._owners = owners
        self._registry = registry
        self._clock = clock
        self._arrivals: asyncio.Queue[Arrival] = asyncio.Queue(MOST_ARRIVALS)
        self._looked_at: Recents[OwnerTuple, float] = Recents(REMEMBERED)

    async def attempt_now(self, delivery: DeliveryId, agent: AgentId, cause: Cause, live_token: str | None) -> bool:
        """Start an attempt at a waiting delivery; False: something stands in the way, such as a floor or a breaker."""
        if not self._courier.takes_one_more(agent):
            return False
        await self._registry.refresh()  # somebody waits for the answer: a stale view would turn them away
        known = self._registry.snapshot.get(agent)
        if known is None or not known.sendable:
            return False
        before = self._clock.monotonic()
        present = live_token is not None
        claimed = await self._deliveries.claim_one(delivery, cause, known.revision, before, present=present)
        if claimed is None:
            return False
        self._courier.carry([replace(claimed, live_token=live_token)])
        return True

    def arrived(self, principal: Principal) -> None:
        """Somebody has made a request with a live token: what waits for them goes out in the background."""
        if principal.kind != "human" or not self._may_wait(principal):
            return
        now = self._clock.monotonic()
        last = self._looked_at.get(principal.owner)
        if last is not None and now - last < OWNER_GAP_MS / 1000:
            return
        self._looked_at.put(principal.owner, now)
        if not self._arrivals.full():
            self._arrivals.put_nowait(Arrival(principal.owner, principal.token))

    def _may_wait(self, principal: Principal) -> bool:
        """Whether any agent has a mode that needs an owner of this issuer and client to be present."""
        return any(
            isinstance(credential, TokenExchange)
            and (credential.issuer, credential.client_id) == (principal.issuer, principal.client)
            for agent in self._registry.snapshot.values()
            if agent.approved
            for credential in agent.approved.credentials
        )

    async def run(self) -> None:
        """Serve arrivals for ever."""
        while True:
            arrival = await self._arrivals.get()
            try:
                await self._serve(arrival)
            except (DBAPIError, PoolTimeoutError, OSError, Refusal) as error:
                log.warning("arrival_not_served", **outline(error))

    async def _serve(self, arrival: Arrival) -> None:
        owner = await self._owners.find(arrival.owner)
        if owner is None:
            return
        for delivery, agent in await self._deliveries.waiting_for(owner.id):
            await self.attempt_now(delivery, agent, "sign_in", arrival.token)
