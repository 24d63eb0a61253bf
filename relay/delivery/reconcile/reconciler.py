"""The background reconciler: asks specialists what they keep, a few at a time, and never in the way of deliveries."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from http import HTTPStatus

import structlog
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from registry.credentials import CredentialFailure
from registry.egress import EgressFailure, Exchange
from registry.model import Agent, AgentId, Registration
from registry.protocols.catalog import ADAPTERS, can_read_back
from registry.protocols.contract import Found, ProtocolAdapter
from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.exchanges import Exchanges, OwnerAbsentError, answer_of
from relay.delivery.model import Behalf, State
from relay.delivery.reconcile.model import (
    ALARMING,
    Check,
    Checked,
    Finding,
    Result,
    by_identity,
    by_owner,
    judge,
    next_wait_ms,
)
from relay.delivery.reconcile.store import Checks
from relay.delivery.schedule import Schedule, pause_seconds, retry_after_ms
from relay.redaction import outline
from relay.telemetry import Metrics

log = structlog.get_logger(__name__)

IN_FLIGHT_PER_AGENT = 2
"""Lists asked of one agent at a time, in one process. Deliveries have places of their own."""

HELD_MS = 600_000
"""How long a check is put off for that has to wait for an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of asking for one list. ``found`` has one entry for each check, in their order; empty: ``result``."""

    found: Sequence[Found] = ()
    result: Result = "failed"
    status: int | None = None
    floor_ms: int = 0


class Reconciler:
    """Checks what is due until it is cancelled. Any number of them run side by side on PostgreSQL.

    Cut off in the middle it loses nothing: what it had claimed is due again when the lease ends.
    """

    def __init__(
        self,
        checks: Checks,
        exchanges: Exchanges,
        registry: Registrations,
        clock: Clock,
        metrics: Metrics,
        schedule: Schedule,
        *,
        deadline_seconds: float,
        poll_seconds: float,
    ) -> None:
        self._checks = checks
        self._exchanges = exchanges
        self._registry = registry
        self._clock = clock
        self._metrics = metrics
        self._schedule = schedule
        self._deadline = deadline_seconds
        self._poll = poll_seconds
        self._in_flight: Counter[AgentId] = Counter()
        self._wake = asyncio.Event()
        self._on_done: list[Callable[[], None]] = []

    def on_done(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever something has been checked."""
        self._on_done.append(callback)

    async def run(self) -> None:
        """Work for ever. A database that is away is waited for, with growing pauses."""
        failures = 0
        async with asyncio.TaskGroup() as group:
            while True:
                self._wake.clear()
                try:
                    for checks in await self.claim():
                        group.create_task(self.check(checks))
                    failures = 0
                except (DBAPIError, PoolTimeoutError, OSError) as error:
                    failures += 1
                    log.warning("checks_not_claimed", failures=failures, **outline(error))
                    await asyncio.sleep(pause_seconds(failures))
                    continue
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await self._wake.wait()

    async def claim(self) -> list[list[Check]]:
        """What is due and may be asked for now, by owner; each is to be handed to `check`."""
        snapshot = self._registry.snapshot
        slots = {
            agent: IN_FLIGHT_PER_AGENT - self._in_flight[agent]
            for agent, known in snapshot.items()
            if known.approved and can_read_back(known.approved.protocol)
        }
        owners = by_owner(await self._checks.claim(slots, snapshot))
        for checks in owners:
            self._in_flight[checks[0].agent] += 1
        return owners

    async def check(self, checks: Sequence[Check]) -> None:
        """Ask for the lists of one owner at one agent, and settle what they show."""
        agent = checks[0].agent
        try:
            for same in by_identity(checks):
                await self._settle(await self._look(same))
        except Exception as error:  # noqa: BLE001 - the lease ends and the check is made again
            log.error("check_not_settled", agent=agent, checks=len(checks), **outline(error))
        finally:
            self._in_flight[agent] -= 1
            self._wake.set()
        for callback in self._on_done:
            callback()

    async def _look(self, checks: Sequence[Check]) -> list[Checked]:
        """Ask for what may be asked for at this moment; the others are put off, or over."""
        agent = self._registry.snapshot.get(checks[0].agent)
        unasked = [(check, _why_not(check, agent)) for check in checks]
        looked = [self._checked(check, finding) for check, finding in unasked if finding is not None]
        asked = [check for check, finding in unasked if finding is None]
        if asked and agent is not None and agent.approved is not None:
            looked += await self._read(asked, agent.approved)
        return looked

    async def _read(self, checks: Sequence[Check], registration: Registration) -> list[Checked]:
        started = self._clock.monotonic()
        reading = await self._ask(checks, registration)
        duration_ms = round((self._clock.monotonic() - started) * 1000)
        findings = (
            map(judge, checks, reading.found) if reading.found else [Finding(result=reading.result) for _ in checks]
        )
        return [
            replace(
                self._checked(check, finding, reading.floor_ms),
                registration=registration.version,
                status=reading.status,
                duration_ms=duration_ms,
            )
            for check, finding in zip(checks, findings, strict=True)
        ]

    def _checked(self, check: Check, finding: Finding, floor_ms: int = 0) -> Checked:
        wait_ms = HELD_MS if finding.result == "held" else next_wait_ms(self._schedule, check, finding, floor_ms)
        return Checked(check=check, finding=finding, wait_ms=wait_ms)

    async def _ask(self, checks: Sequence[Check], registration: Registration) -> Reading:
        """Ask for one list. Never raises for what a specialist, an authorization server or the network does."""
        agent = registration.agent
        try:
            exchange = await self._exchange(checks[0].behalf, registration)
        except OwnerAbsentError:
            return Reading(result="owner_absent")
        except CredentialFailure as failure:
            log.warning("not_read_back", agent=agent, checks=len(checks), reason=failure.reason)
            return Reading()
        except EgressFailure as failure:
            log.warning("not_read_back", agent=agent, checks=len(checks), reason=failure.kind, phase=failure.phase)
            return Reading(status=failure.status)
        if exchange.status != HTTPStatus.OK:
            log.warning("not_read_back", agent=agent, checks=len(checks), status=exchange.status)
            floor = retry_after_ms(exchange.headers.get("retry-after"), now=self._clock.unix())
            return Reading(status=exchange.status, floor_ms=floor)
        rated = [check.rated for check in checks if check.rated is not None]
        # Up to 2 MiB of JSON: not while everybody else waits.
        found = await asyncio.to_thread(_adapter(registration).find_all, answer_of(exchange), rated)
        return Reading(found=found, status=exchange.status)

    async def _exchange(self, behalf: Behalf, registration: Registration) -> Exchange:
        """The list, with one fresh token where the first is refused; the deadline covers everything."""
        until = self._clock.monotonic() + self._deadline
        request = _adapter(registration).read_back()
        if request is None:
            raise LookupError(f"{registration.protocol} cannot read back")
        access = await self._exchanges.authorize(behalf, registration, until, fresh=False)
        exchange = await self._exchanges.send(behalf, registration, request, access, until)
        if exchange.status == HTTPStatus.UNAUTHORIZED:
            access = await self._exchanges.authorize(behalf, registration, until, fresh=True)
            exchange = await self._exchanges.send(behalf, registration, request, access, until)
        return exchange

    async def _settle(self, looked: Sequence[Checked]) -> None:
        states = await self._checks.settle(looked)
        for checked in looked:
            check, finding = checked.check, checked.finding
            self._metrics.check(agent=check.agent, result=finding.result)
            if check.delivery in states and finding.changes_evidence_of(check):
                _tell(check, finding, states[check.delivery])


def _why_not(check: Check, agent: Agent | None) -> Finding | None:
    """Why nothing may be asked for this check now; None: it may."""
    if agent is None or agent.approved is None or agent.is_held(check.tenant, check.pinned):
        return Finding(result="held", counts=False)
    if check.rated is None:
        return Finding(result="erased", ends=True)
    if agent.approved.protocol != check.protocol or not can_read_back(check.protocol):
        return Finding(result="not_supported")
    return None


def _adapter(registration: Registration) -> ProtocolAdapter:
    return ADAPTERS[registration.protocol or ""]


def _tell(check: Check, finding: Finding, state: State) -> None:
    """One line for each change of evidence: a warning where a specialist does not keep what it acknowledged."""
    level = logging.WARNING if finding.evidence in ALARMING else logging.INFO
    log.log(
        level,
        "evidence",
        submission=check.submission,
        agent=check.agent,
        state=state,
        before=check.evidence,
        evidence=finding.evidence,
    )
