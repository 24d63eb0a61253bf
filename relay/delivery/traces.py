"""What a collector is told of deliveries: a span for each attempt, and an event for each rating that is saved.

All attempts at one submission are children of the request that brought it, whenever and wherever they are made: its
context is stored with the submission. Names are those of OpenTelemetry's conventions for HTTP and for generative AI.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from registry.model import Registration
from registry.protocols.catalog import ADAPTERS
from relay.clock import Clock
from relay.delivery.model import Claimed, Outcome, Settled
from relay.storage.engine import Database
from relay.telemetry.spans import Event, Span, Tracing
from relay.telemetry.traces import TraceContext

EVALUATION: Final = "gen_ai.evaluation.result"
EVALUATION_NAME: Final = "user_rating"
RESPONSE_ID: Final = "gen_ai.response.id"
"""Also the kind of evidence by which provenance names the response that was rated."""
RUN_SPAN: Final = "traceparent"
"""The kind of evidence by which provenance names the span of the run: the conventions want an evaluation below it."""

SCORES: Final = {"up": 1.0, "down": 0.0}

EVALUATED: Final = f"""
SELECT e.kind, min(e.id) AS id FROM provenance p JOIN provenance_evidence e ON e.provenance = p.seq
WHERE p.owner = :owner AND p.task = :task AND p.agent = :agent AND e.kind IN ('{RESPONSE_ID}', '{RUN_SPAN}')
GROUP BY e.kind HAVING count(*) = 1
"""


class DeliveryTraces:
    """Only made where a collector is configured. ``comments`` says whether what people wrote may go there."""

    def __init__(self, tracing: Tracing, db: Database, clock: Clock, *, comments: bool) -> None:
        self._tracing = tracing
        self._db = db
        self._clock = clock
        self._comments = comments

    def begin(self, claimed: Claimed) -> tuple[Claimed, TraceContext]:
        """The delivery under a span of its own, by which the specialist will know this attempt; and that span."""
        parent = TraceContext.read([claimed.trace_context or ""])
        own = self._tracing.begin() if parent is None else parent.child()
        return replace(claimed, trace_context=own.traceparent), own

    async def tell(
        self,
        claimed: Claimed,
        own: TraceContext,
        registration: Registration | None,
        outcome: Outcome,
        settled: Settled,
    ) -> None:
        """Record what came of the attempt. Raises nothing for a database that is away."""
        at = self._clock.unix()
        if outcome.phase is not None and registration is not None and claimed.protocol in ADAPTERS:
            self._tracing.record(_span(claimed, own, registration, outcome, settled, at))
        if settled.state == "saved":
            self._tracing.tell(await self._evaluation(claimed, own, at))

    async def _evaluation(self, claimed: Claimed, own: TraceContext, at: float) -> Event:
        evaluated = await self._evaluated(claimed)
        explained = claimed.comment if self._comments else None
        optional = {RESPONSE_ID: evaluated.get(RESPONSE_ID), "gen_ai.evaluation.explanation": explained}
        return Event(
            name=EVALUATION,
            context=TraceContext.read([evaluated.get(RUN_SPAN, "")]) or own,
            at=at,
            attributes={
                "gen_ai.evaluation.name": EVALUATION_NAME,
                "gen_ai.evaluation.score.value": SCORES[claimed.rating],
                "gen_ai.evaluation.score.label": claimed.rating,
                "gen_ai.agent.id": claimed.claim.agent,
                "feedback_relay.submission.id": claimed.submission,
                **{name: value for name, value in optional.items() if value is not None},
            },
        )

    async def _evaluated(self, claimed: Claimed) -> Mapping[str, str]:
        """The model's response that the task came to, and the span of its run: each if provenance names exactly one."""
        task = {"owner": claimed.owner, "task": claimed.task, "agent": claimed.claim.agent}
        try:
            async with self._db.read() as connection:
                found = await connection.execute(self._db.sql(EVALUATED), task)
                return {row.kind: row.id for row in found}
        except (DBAPIError, PoolTimeoutError, OSError):
            return {}


def _span(
    claimed: Claimed, own: TraceContext, registration: Registration, outcome: Outcome, settled: Settled, at: float
) -> Span:
    claim = claimed.claim
    request = ADAPTERS[claimed.protocol].request_for(claimed.submission, claimed.payload)
    origin = urlsplit(registration.origin)
    error = None if outcome.end == "saved" else (outcome.reason or str(outcome.status or outcome.end))
    optional = {
        "http.response.status_code": outcome.status,
        "http.request.resend_count": claim.number - 1 or None,
        "error.type": error,
        "feedback_relay.state": settled.state,
    }
    return Span(
        name=f"{request.method} {request.path}",
        kind="client",
        context=own,
        started=at - outcome.duration_ms / 1000,
        seconds=outcome.duration_ms / 1000,
        attributes={
            "http.request.method": request.method,
            "url.full": registration.origin + request.path,
            "server.address": origin.hostname or "",
            "server.port": origin.port or (443 if origin.scheme == "https" else 80),
            "gen_ai.agent.id": claim.agent,
            "feedback_relay.submission.id": claimed.submission,
            "feedback_relay.cause": claim.cause,
            "feedback_relay.outcome": outcome.end,
            "feedback_relay.ambiguous": outcome.ambiguous,
            **{name: value for name, value in optional.items() if value is not None},
        },
        failed=error is not None,
    )
