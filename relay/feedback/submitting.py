"""Submitting, repeating and retrying: from what a caller wants to what they are told."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from registry.registrations import Registrations
from relay.delivery.asking import Asking
from relay.delivery.courier import Courier
from relay.delivery.model import FINAL, Cause
from relay.delivery.store import Deliveries
from relay.errors import Refusal
from relay.feedback.acceptance import Acceptance, Offered
from relay.feedback.model import Facts, Offer, Submission, Verdict, is_repeat, judge
from relay.feedback.refusals import erased, refuse, reused, taken
from relay.feedback.store import Submissions
from relay.feedback.targets import Targets
from relay.identity.model import Owner, Principal
from relay.identity.owners import Owners
from relay.storage.group_commit import QueueFullError
from relay.telemetry import Metrics

MOST_LOOKS = 10
"""How often an offer may find the registry changed, or a race lost, before that is an error."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What the caller is told, and under which status."""

    submission: Submission
    status: Literal[200, 201, 202]


class Submitting:
    """The use cases of the people who rate."""

    def __init__(
        self,
        acceptance: Acceptance,
        submissions: Submissions,
        deliveries: Deliveries,
        courier: Courier,
        asking: Asking,
        owners: Owners,
        registry: Registrations,
        targets: Targets,
        metrics: Metrics,
    ) -> None:
        self._acceptance = acceptance
        self._submissions = submissions
        self._deliveries = deliveries
        self._courier = courier
        self._asking = asking
        self._owners = owners
        self._registry = registry
        self._targets = targets
        self._metrics = metrics

    async def submit(self, principal: Principal, offer: Offer, *, wait: float, trace_context: str | None) -> Answered:
        """Store a rating and wait up to ``wait`` seconds for its acknowledgement. Every no is a `Refusal`."""
        owner = await self._owners.find(principal.owner)
        if owner is None:
            raise refuse("task_not_found")
        facts, verdict = await self._store(principal, owner, offer, trace_context)
        if verdict == "known" and facts.known is not None:
            return await self._repeat(principal, facts.known, offer, wait)
        if verdict == "taken" and facts.taken is not None:
            raise taken(await self._submissions.get(facts.taken))
        if verdict != "stored" or facts.stored is None:
            raise refuse(verdict, targets=await self._named(owner, offer, verdict))
        stored = facts.stored
        self._metrics.accepted(stored.agent)
        if not wait or stored.state not in {"sending", "pending"}:
            return _answered(stored.submission(offer, principal.tenant), final_status=202)
        await self._wait(self._courier.expect(stored.delivery), wait)
        return _answered(await self._submissions.get(stored.seq), final_status=202)

    async def _store(
        self, principal: Principal, owner: Owner, offer: Offer, trace_context: str | None
    ) -> tuple[Facts, Verdict]:
        for _ in range(MOST_LOOKS):
            offered = Offered(
                offer=offer,
                owner=owner,
                tenant=principal.tenant,
                client=principal.client,
                trace_context=trace_context,
                live_token=_live_token(principal),
            )
            try:
                facts = await self._acceptance.offer(offered)
            except QueueFullError:
                self._metrics.queue_full()
                raise Refusal(
                    "accept_queue_full",
                    "Nothing was stored. Send the same request again after a moment.",
                    headers={"Retry-After": "1"},
                ) from None
            verdict = judge(facts)
            match verdict:
                case "registry_changed":
                    await self._registry.reload()
                case "subject_not_sealed":
                    owner = await self._owners.ensure(principal.owner, seal_subject=True, present=True)
                case "raced":
                    pass
                case _:
                    return facts, verdict
        raise RuntimeError("an offer was neither stored nor refused")

    async def _repeat(self, principal: Principal, seq: int, offer: Offer, wait: float) -> Answered:
        stored = await self._submissions.get(seq)
        if stored.erased_at is not None:
            raise erased()
        if not is_repeat(offer, stored):
            raise reused()
        return await self._try_now(principal, stored, "repeat", wait)

    async def retry(self, principal: Principal, submission_id: str, *, wait: float) -> Answered:
        """Try a stored submission again because its owner asks."""
        owner = await self._owners.find(principal.owner)
        stored = None if owner is None else await self._submissions.find(owner.id, submission_id)
        if stored is None:
            raise refuse("submission_not_found")
        if stored.erased_at is not None:
            raise erased()
        if stored.state in {"conflict", "abandoned"}:
            raise Refusal(
                "not_retryable",
                f"The submission is in state {stored.state}, which no retry of its owner can change.",
                extra={"state": stored.state},
            )
        if stored.state in {"rejected", "exhausted"}:
            await self._reopen(stored)
            stored = await self._submissions.get(stored.seq)
        return await self._try_now(principal, stored, "retry", wait)

    async def _reopen(self, stored: Submission) -> None:
        """Where the delivery waits then, is for the registry to say: it may be held by now."""
        for _ in range(MOST_LOOKS):
            agent = self._registry.snapshot.get(stored.agent)
            if agent is not None and await self._deliveries.reopen(
                stored.delivery, agent.revision, held=agent.is_held(stored.tenant, stored.pinned)
            ):
                return
            await self._registry.reload()
            stored = await self._submissions.get(stored.seq)
            if stored.erased_at is not None:
                raise erased()
            if stored.state not in {"rejected", "exhausted"}:
                return  # somebody else was first
        raise RuntimeError("the registration keeps changing")

    async def _try_now(self, principal: Principal, stored: Submission, cause: Cause, wait: float) -> Answered:
        """An attempt at once, unless something stands in the way; an attempt under way is waited for."""
        if stored.state in FINAL:
            return _answered(stored, final_status=200)
        if stored.state in {"pending", "sending", "needs_owner"}:
            expected = self._courier.expect(stored.delivery)
            try:
                under_way = stored.state == "sending" or await self._start(principal, stored, cause)
                await self._wait(expected, wait if under_way else 0)
            finally:
                expected.cancel()
            stored = await self._submissions.get(stored.seq)
        return _answered(stored, final_status=202)

    async def _start(self, principal: Principal, stored: Submission, cause: Cause) -> bool:
        token = _live_token(principal)
        if await self._asking.attempt_now(stored.delivery, stored.agent, cause, token):
            return True
        return await self._is_sending(stored)

    async def _is_sending(self, stored: Submission) -> bool:
        """Whether a worker was quicker: it may have claimed what was pending a moment ago."""
        return (await self._submissions.get(stored.seq)).state == "sending"

    async def _named(self, owner: Owner, offer: Offer, verdict: Verdict) -> list[object] | None:
        if verdict != "explicit_target_required":
            return None
        return list(await self._targets.of_task(owner, offer.task))

    async def _wait(self, expected: asyncio.Future[None], seconds: float) -> None:
        if seconds:
            await asyncio.wait([expected], timeout=seconds)
        expected.cancel()


def _live_token(principal: Principal) -> str | None:
    """A person's token may be exchanged for one at the specialist; a machine's is never needed for that."""
    return principal.token if principal.kind == "human" else None


def _answered(stored: Submission, *, final_status: Literal[200, 202]) -> Answered:
    """201 only for what is saved. A first answer is 202 for whatever else; a repeat of what is final is 200. What was
    erased while the caller waited is gone.
    """
    if stored.erased_at is not None:
        raise erased()
    if stored.state == "saved":
        return Answered(stored, 201)
    return Answered(stored, final_status if stored.state in FINAL else 202)
