"""Carries claimed deliveries: bounded in flight per agent, each settled whatever happens, given back at a shutdown."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence

import structlog

from registry.model import AgentId, Registration
from registry.registrations import Registrations
from relay.clock import Clock
from relay.delivery.attempt import Attempts, Progress
from relay.delivery.model import Claim, Claimed, DeliveryId, Outcome, Settled, Settlement
from relay.delivery.pace import Pace
from relay.delivery.settling import Settlements
from relay.delivery.traces import DeliveryTraces
from relay.delivery.turns import Turns
from relay.redaction import outline
from relay.telemetry import Metrics

log = structlog.get_logger(__name__)

LEASE_MARGIN_SECONDS = 2.0
"""What must be left of a lease beyond the deadline, for the settle."""

AHEAD_SECONDS = 0.25
"""How much is claimed beyond what may be in flight: what the agent takes in so much time, so that a claim is for many
and nobody waits for it. A slow agent has none of it, and one whose attempts fail none any more."""
MOST_AHEAD = 3
"""The bound of that, as a multiple of what may be in flight."""


class Courier:
    """Makes attempts in the background. One for each process."""

    def __init__(
        self,
        attempts: Attempts,
        settlements: Settlements,
        registry: Registrations,
        clock: Clock,
        metrics: Metrics,
        *,
        in_flight_per_agent: int,
        deadline_seconds: float,
        lease_seconds: float,
        traces: DeliveryTraces | None = None,
    ) -> None:
        self._attempts = attempts
        self._settlements = settlements
        self._registry = registry
        self._clock = clock
        self._metrics = metrics
        self._traces = traces
        self._most = in_flight_per_agent
        self._patience = lease_seconds - deadline_seconds - LEASE_MARGIN_SECONDS
        self._in_flight: Counter[AgentId] = Counter()
        self._turns: dict[AgentId, Turns] = {}
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._scopes: set[asyncio.Timeout] = set()
        self._ended = False
        self._waiting: dict[DeliveryId, list[asyncio.Future[None]]] = {}
        self._on_done: list[Callable[[], None]] = []
        self._on_room: list[Callable[[], None]] = []
        self._more: set[AgentId] = set()
        self._paces: defaultdict[AgentId, Pace] = defaultdict(lambda: Pace(clock))
        self._troubles: Counter[AgentId] = Counter()

    async def run(self) -> None:
        """Be ready to carry, for ever; cancelled after `drain`."""
        async with asyncio.TaskGroup() as self._group:
            await asyncio.get_running_loop().create_future()

    def on_done(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called whenever an attempt has come to its end."""
        self._on_done.append(callback)

    def on_room(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when nothing waits here any more of an agent that may have more to deliver."""
        self._on_room.append(callback)

    def expect_more(self, agents: Iterable[AgentId]) -> None:
        """More of these agents may be due than could be claimed. To be said after `carry`."""
        agents = set(agents)
        self._more |= agents
        if not all(self._in_flight[agent] for agent in agents):  # what had taken the room has come to its end already
            self._tell_of_room()

    def free(self, agents: Collection[AgentId]) -> dict[AgentId, int]:
        """How many more deliveries of each agent to claim now.

        Two claims at the same moment may take more between them; what is beyond the bound waits its turn in `carry`.
        """
        return {agent: max(0, self._most_of(agent) - self._in_flight[agent]) for agent in agents}

    def room(self, agents: Collection[AgentId]) -> dict[AgentId, int]:
        """As `free`, with what may be claimed ahead because the agent is quick. It waits its turn in `carry`."""
        ahead = {
            agent: min(self._paces[agent].within(AHEAD_SECONDS), MOST_AHEAD * self._most_of(agent)) for agent in agents
        }
        return {agent: max(0, self._most_of(agent) + ahead[agent] - self._in_flight[agent]) for agent in agents}

    def takes_one_more(self, agent: AgentId) -> bool:
        """Whether one that a person waits for may join those that wait their turn, which in a backlog never end."""
        return self._in_flight[agent] < (2 + MOST_AHEAD) * self._most_of(agent)

    def _most_of(self, agent: AgentId) -> int:
        """The bound of the registration in force, else that of every agent."""
        known = self._registry.snapshot.get(agent)
        own = known.approved.limits.in_flight if known is not None and known.approved else None
        return own or self._most

    def expect(self, delivery: DeliveryId) -> asyncio.Future[None]:
        """A future that is done once this process has settled an attempt at the delivery."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(delivery, []).append(future)
        future.add_done_callback(lambda _: self._forget(delivery, future))
        return future

    def _forget(self, delivery: DeliveryId, future: asyncio.Future[None]) -> None:
        waiting = self._waiting.get(delivery, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(delivery, None)

    def carry(self, deliveries: Sequence[Claimed]) -> None:
        """Start an attempt at each, no more at once for an agent than are allowed in flight."""
        for claimed in deliveries:
            agent = claimed.claim.agent
            self._in_flight[agent] += 1
            if self._in_flight[agent] >= self._most_of(agent):
                self._more.add(agent)
            carried = self._carry(claimed) if self._traces is None else self._carry_traced(claimed, self._traces)
            task = self._running_group().create_task(carried)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _running_group(self) -> asyncio.TaskGroup:
        if self._group is None:
            raise RuntimeError("the courier is not running")
        return self._group

    async def drain(self, grace_seconds: float) -> None:
        """Let attempts under way finish; what has not by then is given back, with what is known of it logged."""
        end = self._clock.monotonic() + grace_seconds
        while self._tasks and (left := end - self._clock.monotonic()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        self._ended = True
        self._settlements.hurry()
        for scope in self._scopes:
            scope.reschedule(asyncio.get_running_loop().time())
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _carry_traced(self, claimed: Claimed, traces: DeliveryTraces) -> None:
        """As `_carry`, under a span that is told of once nobody waits for the delivery any more."""
        claimed, own = traces.begin(claimed)
        carried = await self._carry(claimed)
        if carried is not None:
            agent = self._registry.snapshot.get(claimed.claim.agent)
            try:
                await traces.tell(claimed, own, None if agent is None else agent.approved, *carried)
            except Exception as error:  # noqa: BLE001 - delivering must not depend on telling of it
                log.warning("attempt_not_traced", submission=claimed.submission, **outline(error))

    async def _carry(self, claimed: Claimed) -> tuple[Outcome, Settled] | None:
        """Make the attempt and write what came of it; None: it could not be written."""
        claim = claimed.claim
        troubles = self._troubles[claim.agent]
        try:
            async with self._turn(claim.agent):
                if self._troubles[claim.agent] == troubles:
                    outcome = await self._outcome(claimed)
                    self._weigh(claim.agent, outcome)
                else:
                    # While this one waited. Whether the agent may be asked now, the next claim finds out.
                    outcome = Outcome(end="released")
            settled = await self._settlements.settle(Settlement(claim, outcome))
        except Exception as error:  # noqa: BLE001 - the lease ends and the attempt is made again
            log.error("attempt_not_settled", submission=claimed.submission, agent=claim.agent, **outline(error))
            return None
        else:
            self._tell(claimed, outcome, settled)
            return outcome, settled
        finally:
            self._release(claim)

    def _turn(self, agent: AgentId) -> Turns:
        if agent not in self._turns:
            self._turns[agent] = Turns(lambda: self._most_of(agent))
        return self._turns[agent]

    def _weigh(self, agent: AgentId, outcome: Outcome) -> None:
        """Have nothing claimed ahead of an agent that is in trouble: a breaker or a pause is looked up by claims."""
        if outcome.unhealthy or outcome.pauses_agent:
            self._troubles[agent] += 1
            self._paces[agent].halt()
        elif outcome.end != "released":
            self._paces[agent].count()

    def _release(self, claim: Claim) -> None:
        agent = claim.agent
        self._in_flight[agent] -= 1
        for future in list(self._waiting.get(claim.delivery, [])):
            if not future.done():
                future.set_result(None)
        for callback in self._on_done:
            callback()
        if agent in self._more and self._in_flight[agent] <= self._most_of(agent):
            self._more.discard(agent)
            self._tell_of_room()

    def _tell_of_room(self) -> None:
        for callback in self._on_room:
            callback()

    async def _outcome(self, claimed: Claimed) -> Outcome:
        registration = self._registration(claimed)
        if self._ended or registration is None or self._clock.monotonic() - claimed.claimed_at > self._patience:
            return Outcome(end="released")
        progress = Progress(self._clock.monotonic())
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                return await self._attempts.make(claimed, registration, progress)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not lose the delivery
            if not scope.expired():
                log.error("attempt_failed", submission=claimed.submission, agent=claimed.claim.agent, **outline(error))
                return Outcome(end="retry", reason="internal_error", phase=progress.phase, ambiguous=progress.sent)
        finally:
            self._scopes.discard(scope)
        # A shutdown. What may have been received is told; the claim is given back either way.
        elapsed = round((self._clock.monotonic() - progress.started) * 1000)
        phase = progress.phase if progress.sent else None
        return Outcome(end="released", reason="shutdown", phase=phase, ambiguous=progress.sent, duration_ms=elapsed)

    def _registration(self, claimed: Claimed) -> Registration | None:
        """What is approved at this moment; None: the delivery has to wait for an operator after all."""
        claim = claimed.claim
        agent = self._registry.snapshot.get(claim.agent)
        if agent is None or agent.is_held(claim.tenant, claim.pinned):
            return None
        return agent.approved

    def _tell(self, claimed: Claimed, outcome: Outcome, settled: Settled) -> None:
        claim = claimed.claim
        self._metrics.attempt(
            agent=claim.agent,
            outcome=outcome.end,
            seconds=outcome.duration_ms / 1000,
            reason=outcome.reason,
            unmatched=outcome.is_unmatched,
        )
        if settled.state == "saved":
            waited = claimed.window_ms / 1000 + self._clock.monotonic() - claimed.claimed_at
            self._metrics.saved(agent=claim.agent, seconds=waited)
        log.info(
            "attempt",
            submission=claimed.submission,
            agent=claim.agent,
            number=claim.number,
            cause=claim.cause,
            outcome=outcome.end,
            state=settled.state,
            reason=outcome.reason,
            status=outcome.status,
            phase=outcome.phase,
            ambiguous=outcome.ambiguous,
            duration_ms=outcome.duration_ms,
        )
