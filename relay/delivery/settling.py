"""From an outcome to what is written: the schedule and the registry have their say; outcomes are written in groups."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import structlog
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from registry.model import AgentId, Snapshot
from registry.protocols.catalog import can_read_back
from registry.registrations import Registrations
from relay.delivery.model import Claim, Outcome, Settled, Settlement, State
from relay.delivery.schedule import Schedule
from relay.delivery.store import OWNER_GAP_MS, Deliveries
from relay.redaction import outline
from relay.storage.group_commit import GroupCommit

log = structlog.get_logger(__name__)

MOST_JUDGEMENTS = 10
"""How often a settle may find the registry changed under it before that is an error."""


class StaleRegistryError(RuntimeError):
    """The registry kept changing while one outcome was written."""


class Settlements:
    """Writes what came of attempts, many at a time."""

    def __init__(
        self,
        deliveries: Deliveries,
        registry: Registrations,
        schedule: Schedule,
        *,
        patience_seconds: float,
        checks: Schedule | None = None,
        observe: Callable[[AgentId, State], None] = lambda _agent, _state: None,
    ) -> None:
        """``checks`` says when what the specialist keeps is read back; None: never. ``observe`` is told of each state
        that a delivery took.
        """
        self._deliveries = deliveries
        self._registry = registry
        self._schedule = schedule
        self._checks = checks
        self._observe = observe
        self._patience = patience_seconds
        self._hurried = False
        # Acknowledgements must never be turned away: no capacity.
        self._group: GroupCommit[Settlement, Settled | None] = GroupCommit(self._write, _keys, capacity=2**31)

    async def run(self) -> None:
        await self._group.run()

    def hurry(self) -> None:
        """Wait for an absent database no longer: the process is ending, and leases look after the rest."""
        self._hurried = True

    async def settle(self, settlement: Settlement) -> Settled:
        """Write one outcome; returns after the commit. A database that is away is waited for, within patience: the
        lease of an outcome that never gets written ends, and the attempt is made again.
        """
        try:
            return await self.settle_once(settlement)
        except StaleRegistryError:
            raise
        except Exception as error:  # whatever keeps the database from writing it
            if self._hurried:
                raise
            log.warning("settle_failed", agent=settlement.claim.agent, **outline(error))
        return await self._settle_again(settlement)

    async def _settle_again(self, settlement: Settlement) -> Settled:
        async for attempt in AsyncRetrying(
            # Not for a cancellation, which is no Exception and which tenacity would swallow.
            retry=retry_if_exception(lambda e: isinstance(e, Exception) and not isinstance(e, StaleRegistryError)),
            wait=wait_random_exponential(0.05, max=2),
            stop=lambda state: self._hurried or stop_after_delay(self._patience)(state),
            reraise=True,
        ):
            with attempt:
                return await self.settle_once(settlement)
        raise AssertionError("unreachable: the last error is raised again")

    async def settle_once(self, settlement: Settlement) -> Settled:
        """As `settle`, without waiting for a database that is away."""
        for _ in range(MOST_JUDGEMENTS):
            settled = await self._group.submit(settlement)
            if settled is not None:
                if settled.state is not None:
                    self._observe(settlement.claim.agent, settled.state)
                return settled
            await self._registry.reload()
        raise StaleRegistryError(f"the registration of {settlement.claim.agent} keeps changing")

    async def _write(self, batch: Sequence[Settlement]) -> Sequence[Settled | None]:
        snapshot = self._registry.snapshot
        rows = [
            {
                **_row(n, s.claim, s.outcome, snapshot, self._schedule),
                "check_ms": _check_ms(s, snapshot, self._checks),
            }
            for n, s in enumerate(batch)
        ]
        return [Settled(r.state) if r.accepted else None for r in await self._deliveries.settle(rows)]


def _keys(settlement: Settlement) -> Iterable[Hashable]:
    return (settlement.claim.delivery,)


def _row(n: int, claim: Claim, outcome: Outcome, snapshot: Snapshot, schedule: Schedule) -> Mapping[str, Any]:
    agent = snapshot.get(claim.agent)
    return {
        "n": n,
        "delivery": claim.delivery,
        "token": claim.token,
        "agent": claim.agent,
        "revision": agent.revision if agent else -1,
        "held": agent is None or agent.is_held(claim.tenant, claim.pinned),
        "outcome": outcome.end,
        "number": claim.number,
        "cause": claim.cause,
        "version": outcome.registration,
        "duration_ms": outcome.duration_ms,
        "phase": outcome.phase,
        "status": outcome.status,
        "reason": outcome.reason,
        "ambiguous": outcome.ambiguous,
        "excerpt": outcome.excerpt,
        "exhausted": outcome.end in {"retry", "lost"} and claim.advances and schedule.is_used_up(claim.position),
        "advances": claim.advances,
        "wait_ms": _wait_ms(claim, outcome, schedule),
        "floor_ms": outcome.retry_after_ms,
        "pause_ms": outcome.retry_after_ms if outcome.pauses_agent else 0,
        "unhealthy": outcome.unhealthy,
        "needs_presence": outcome.needs_presence,
    }


def _wait_ms(claim: Claim, outcome: Outcome, schedule: Schedule) -> int:
    """The schedule's wait, or the specialist's floor where that is longer, spread so that not all come back at once."""
    wait = schedule.wait_ms(claim.position) if claim.advances else OWNER_GAP_MS
    return max(wait, schedule.spread_ms(outcome.retry_after_ms))


def _check_ms(settlement: Settlement, snapshot: Snapshot, checks: Schedule | None) -> int | None:
    """When to look whether the specialist keeps it: where it says so, and where nobody knows. None: no news on that."""
    outcome = settlement.outcome
    if checks is None or not (outcome.end == "saved" or outcome.ambiguous):
        return None
    agent = snapshot.get(settlement.claim.agent)
    # Without an approval nothing is read back; another one may come.
    if agent is None or agent.approved is None or can_read_back(agent.approved.protocol):
        return checks.wait_ms(0)
    return None
