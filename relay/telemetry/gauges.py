"""What stands at this moment, for Prometheus: set as a whole before each scrape, from the database and from memory."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

NAMESPACE: Final = "feedback_relay"

WAITING_STATES: Final = ("pending", "sending", "held", "needs_owner")
BREAKER_STATES: Final = ("closed", "open", "half_open")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The deliveries of one agent that wait in one state, and how long the oldest of them has."""

    agent: str
    state: str
    total: int
    oldest_seconds: float


@dataclass(frozen=True, slots=True)
class OpenJobs:
    """The jobs of one kind that are not finished; ``idle_seconds`` since the one that stood still longest moved."""

    kind: str
    total: int
    idle_seconds: float


class Gauges:
    """Every gauge of one process. What the database says is the same in all processes: take the largest, not the sum.

    An agent without a backlog has zeros, so that a query tells an empty backlog from one that is not known.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=registry)

        self._deliveries = gauge("deliveries", "Deliveries that are not final, all tenants.", "agent", "state")
        self._oldest = gauge(
            "deliveries_oldest_seconds", "How long the oldest such delivery has waited.", "agent", "state"
        )
        self._breakers = gauge("breaker_state", "1 for the state that the agent's breaker is in.", "agent", "state")
        self._jobs = gauge("jobs_open", "Bulk jobs that are not finished.", "kind")
        self._jobs_idle = gauge("jobs_idle_seconds", "Since an unfinished bulk job last moved.", "kind")
        self._up = gauge("database_up", "1 where the database answered when it was last asked.")
        self._read_seconds = gauge("database_read_seconds", "How long reading these numbers took.")
        self._connections = gauge("database_connections", "Connections of the pool that are in use.")
        self._queue = gauge("accept_queue_length", "Submissions that wait to be stored.")
        self._capacity = gauge("accept_queue_capacity", "How many may wait; more are refused.")
        self._keys_age = gauge("jwks_age_seconds", "Age of the issuer's keys, once there are any.", "issuer")
        self._keys_failing = gauge("jwks_failing", "1 where the last fetch of the issuer's keys failed.", "issuer")

    def database(
        self,
        *,
        agents: Collection[str],
        waiting: Iterable[Waiting],
        breakers: Mapping[str, str],
        jobs: Iterable[OpenJobs],
        seconds: float,
    ) -> None:
        """Set all that the database says; what it does not name any more is gone."""
        self._forget()
        for agent in agents:
            for state in WAITING_STATES:
                self._deliveries.labels(agent, state).set(0)
                self._oldest.labels(agent, state).set(0)
        for line in waiting:
            self._deliveries.labels(line.agent, line.state).set(line.total)
            self._oldest.labels(line.agent, line.state).set(line.oldest_seconds)
        for agent in {*agents, *breakers}:
            for state in BREAKER_STATES:
                self._breakers.labels(agent, state).set(breakers.get(agent, "closed") == state)
        for job in jobs:
            self._jobs.labels(job.kind).set(job.total)
            self._jobs_idle.labels(job.kind).set(job.idle_seconds)
        self._up.set(1)
        self._read_seconds.set(seconds)

    def database_away(self) -> None:
        """Unknown is not the same as none: everything that only the database knows goes."""
        self._forget()
        self._up.set(0)

    def _forget(self) -> None:
        for each in (self._deliveries, self._oldest, self._breakers, self._jobs, self._jobs_idle):
            each.clear()

    def connections(self, in_use: int) -> None:
        self._connections.set(in_use)

    def accept_queue(self, length: int, capacity: int) -> None:
        self._queue.set(length)
        self._capacity.set(capacity)

    def keys(self, issuer: str, *, age_seconds: float | None, failing: bool) -> None:
        if age_seconds is not None:
            self._keys_age.labels(issuer).set(age_seconds)
        self._keys_failing.labels(issuer).set(failing)
