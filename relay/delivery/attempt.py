"""One attempt: authorize, send the stored bytes, read the answer, judge it. Settles nothing itself."""

from dataclasses import dataclass, replace
from typing import assert_never

from registry.credentials import Access, CredentialFailure
from registry.egress import EgressFailure, Exchange
from registry.model import Registration
from registry.protocols.catalog import ADAPTERS
from registry.protocols.contract import (
    Acknowledged,
    Collision,
    NotFound,
    ProtocolAdapter,
    Refused,
    TryLater,
    Unauthorized,
)
from relay.clock import Clock
from relay.delivery.exchanges import Exchanges, OwnerAbsentError, answer_of
from relay.delivery.model import Claimed, Outcome
from relay.delivery.schedule import retry_after_ms
from relay.redaction import excerpt

NOT_FOUND_GRACE_MS = 600_000
"""A specialist may not have ingested its own run yet: so long a 404 is no refusal."""

PAUSES = frozenset({429, 503})
"""Statuses whose Retry-After speaks of the server, not of the one request (RFC 6585, RFC 9110 section 15.6.4)."""


@dataclass(slots=True)
class Progress:
    """How far the attempt got, for the one who has to tell of it when it is cut off."""

    started: float
    phase: str = "authorize"
    sent: bool = False


class Attempts:
    """Makes attempts. Never raises for what a specialist, an authorization server or the network does."""

    def __init__(self, exchanges: Exchanges, clock: Clock, *, deadline_seconds: float) -> None:
        self._exchanges = exchanges
        self._clock = clock
        self._deadline = deadline_seconds

    async def make(self, claimed: Claimed, registration: Registration, progress: Progress) -> Outcome:
        """Try once; the deadline covers everything, a second token and reading back included."""
        until = self._clock.monotonic() + self._deadline
        try:
            outcome = await self._make(claimed, registration, progress, until)
        except OwnerAbsentError as absent:
            phase = "authorize" if absent.reason else None
            outcome = Outcome(end="released", reason=absent.reason, phase=phase, needs_presence=True)
        except CredentialFailure as failure:
            outcome = Outcome(end="retry", reason=failure.reason, phase="authorize")
        except EgressFailure as failure:
            outcome = Outcome(
                end="retry",
                reason=failure.kind,
                phase=failure.phase,
                status=failure.status,
                ambiguous=failure.ambiguous,
                unhealthy=True,
            )
        elapsed = self._clock.monotonic() - progress.started
        return replace(outcome, duration_ms=round(elapsed * 1000), registration=registration.version)

    async def _make(self, claimed: Claimed, registration: Registration, progress: Progress, until: float) -> Outcome:
        adapter = ADAPTERS.get(registration.protocol or "")
        if adapter is None or registration.protocol != claimed.protocol:
            return Outcome(end="retry", reason="feedback_not_supported", phase="authorize")
        request = adapter.request_for(claimed.submission, claimed.payload)
        behalf = claimed.behalf
        access = await self._exchanges.authorize(behalf, registration, until, fresh=False)
        progress.phase, progress.sent = "send", True
        exchange = await self._exchanges.send(behalf, registration, request, access, until)
        verdict = adapter.interpret(answer_of(exchange), claimed.submission)
        if isinstance(verdict, Unauthorized):
            access = await self._exchanges.authorize(behalf, registration, until, fresh=True)
            exchange = await self._exchanges.send(behalf, registration, request, access, until)
            verdict = adapter.interpret(answer_of(exchange), claimed.submission)
        outcome = _judge(verdict, exchange, claimed, self._clock)
        if isinstance(verdict, Collision):
            outcome = await self._read_back(adapter, claimed, registration, access, until, outcome)
        return outcome

    async def _read_back(
        self,
        adapter: ProtocolAdapter,
        claimed: Claimed,
        registration: Registration,
        access: Access,
        until: float,
        outcome: Outcome,
    ) -> Outcome:
        """A 409 that proves nothing by itself: look at what the specialist holds. Only a 201 ever saves."""
        request = adapter.read_back()
        if request is None:
            return replace(outcome, end="conflict", reason="conflict")
        try:
            exchange = await self._exchanges.send(claimed.behalf, registration, request, access, until)
        except EgressFailure as failure:
            return replace(outcome, reason=f"conflict_not_read_back:{failure.kind}")
        found = adapter.find(answer_of(exchange), claimed.rated)
        match found:
            case "different":
                return replace(outcome, end="conflict", reason="conflict")
            case "absent" if self._is_past_grace(claimed):
                return replace(outcome, end="rejected", reason="conflict_but_absent")
            case "absent" | "same" | "out_of_window" | "unreadable":
                return replace(outcome, reason=f"conflict_but_{found}")
            case _:
                assert_never(found)

    def _is_past_grace(self, claimed: Claimed) -> bool:
        return _window_age_ms(claimed, self._clock) > NOT_FOUND_GRACE_MS


def _window_age_ms(claimed: Claimed, clock: Clock) -> float:
    return claimed.window_ms + (clock.monotonic() - claimed.claimed_at) * 1000


def _judge(
    verdict: Acknowledged | Refused | Unauthorized | NotFound | Collision | TryLater,
    exchange: Exchange,
    claimed: Claimed,
    clock: Clock,
) -> Outcome:
    """The adapter's verdict as an outcome; what depends on time (the grace of a 404, Retry-After) is decided here."""
    floor = retry_after_ms(exchange.headers.get("retry-after"), now=clock.unix())
    seen = Outcome(
        end="retry",
        status=exchange.status,
        phase="body",
        excerpt=None if isinstance(verdict, Acknowledged) else excerpt(exchange.body),
        retry_after_ms=floor,
        pauses_agent=floor > 0 and exchange.status in PAUSES,
    )
    match verdict:
        case Acknowledged():
            return replace(seen, end="saved")
        case Refused(reason):
            return replace(seen, end="rejected", reason=reason)
        case Unauthorized():
            return replace(seen, reason="unauthorized")
        case NotFound():
            past = _window_age_ms(claimed, clock) > NOT_FOUND_GRACE_MS
            return replace(seen, end="rejected" if past else "retry", reason="not_found")
        case Collision():
            return replace(seen, reason="conflict")
        case TryLater(reason):
            # 5xx and an unmatched 2xx: the specialist may have kept it all the same.
            ambiguous = exchange.status >= 500 or 200 <= exchange.status < 300  # noqa: PLR2004 - classes of status
            return replace(seen, reason=reason, unhealthy=reason != "task_not_finished", ambiguous=ambiguous)
        case _:
            assert_never(verdict)
