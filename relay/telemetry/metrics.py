"""What is counted, for Prometheus. Labels take values from a bounded set: routes, agents, states, outcomes, codes."""

from collections.abc import Collection
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder

from relay.telemetry.gauges import NAMESPACE, Gauges

FetchOutcome = Literal["fetched", "failed", "stale"]
"""Of an issuer's keys: had, not had, or not had while older ones still serve."""

FINAL_STATES: Final = ("saved", "rejected", "conflict", "exhausted")
"""Those that an attempt may end in."""

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ATTEMPT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
# From the answer of a quick specialist to the end of the schedule.
_SAVED_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0, 259_200.0)


class Metrics:
    """The numbers of one process, in a registry of its own, so that two in one process do not add up."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.gauges = Gauges(registry)
        # Finding a series by its labels takes a lock and builds a key of texts: every request would pay for it.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._accepted_by: dict[str, Counter] = {}
        self._attempts_by: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._settled_by: dict[tuple[str, str], Counter] = {}
        self._saved_by: dict[str, Histogram] = {}
        self._known: set[str] = set()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: Collection[float]) -> Histogram:
            return Histogram(name, text, labels, namespace=NAMESPACE, registry=registry, buckets=tuple(buckets))

        self._requests = counter("requests", "Requests answered, by route template.", "route", "method", "status")
        self._request_duration = histogram(
            "request_duration_seconds",
            "Time from the headers of a request to the end of its answer.",
            "route",
            "method",
            buckets=_REQUEST_BUCKETS,
        )
        self._accepted = counter("submissions_accepted", "Submissions stored.", "agent")
        self._refused = counter("accept_queue_refused", "Submissions refused because the accept queue was full.")
        self._attempts = counter("attempts", "Attempts to deliver, by what came of them.", "agent", "outcome")
        self._attempt_duration = histogram(
            "attempt_duration_seconds",
            "Time that an attempt took, credentials included.",
            "agent",
            buckets=_ATTEMPT_BUCKETS,
        )
        self._failures = counter(
            "attempt_failures", "Attempts that did not save, by the code of the reason.", "agent", "reason"
        )
        self._unmatched = counter(
            "unmatched_acknowledgements", "2xx answers that acknowledged nothing of what was sent.", "agent"
        )
        self._settled = counter(
            "deliveries_settled", "Attempts by the state that the delivery took after them.", "agent", "state"
        )
        self._time_to_saved = histogram(
            "time_to_saved_seconds",
            "From accepting a submission, or an explicit retry of it, to its acknowledgement.",
            "agent",
            buckets=_SAVED_BUCKETS,
        )
        self._checks = counter(
            "checks", "Deliveries read back from their specialists, by what was found.", "agent", "result"
        )
        self._jwks = counter("jwks_fetches", "Fetches of an issuer's keys.", "outcome")

    def introduce(self, agents: Collection[str]) -> None:
        """Let series whose first event matters begin at zero: Prometheus sees no increase in what was not there."""
        for agent in agents:
            if agent not in self._known:
                self._known.add(agent)
                self._unmatched.labels(agent)
                for state in FINAL_STATES:
                    self._settled.labels(agent, state)

    def request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count a request by its route's template, never by its path."""
        key = (route, method, status)
        series = self._series.get(key)
        if series is None:
            counter = self._requests.labels(route, method, str(status))
            series = self._series[key] = counter, self._request_duration.labels(route, method)
        series[0].inc()
        series[1].observe(seconds)

    def accepted(self, agent: str, count: int = 1) -> None:
        """Count submissions that were stored, repeats left out."""
        series = self._accepted_by.get(agent)
        if series is None:
            series = self._accepted_by[agent] = self._accepted.labels(agent)
        series.inc(count)

    def queue_full(self) -> None:
        """Count a submission that was not stored, since too many were waiting for it."""
        self._refused.inc()

    def attempt(
        self, *, agent: str, outcome: str, seconds: float, reason: str | None = None, unmatched: bool = False
    ) -> None:
        """Count an attempt. ``outcome`` and ``reason`` are codes, such as an end and an error's kind; of a reason what
        follows a colon (a status, an authorization server's own code) is left out. ``unmatched``: a 2xx that saved
        nothing.
        """
        series = self._attempts_by.get((agent, outcome))
        if series is None:
            counter = self._attempts.labels(agent, outcome)
            series = self._attempts_by[agent, outcome] = counter, self._attempt_duration.labels(agent)
        series[0].inc()
        series[1].observe(seconds)
        if reason is not None:
            self._failures.labels(agent, reason.partition(":")[0]).inc()
        if unmatched:
            self._unmatched.labels(agent).inc()

    def settled(self, *, agent: str, state: str) -> None:
        """Count a delivery that took this state when an attempt was written."""
        series = self._settled_by.get((agent, state))
        if series is None:
            series = self._settled_by[agent, state] = self._settled.labels(agent, state)
        series.inc()

    def saved(self, *, agent: str, seconds: float) -> None:
        """Observe how long a submission took to be acknowledged."""
        series = self._saved_by.get(agent)
        if series is None:
            series = self._saved_by[agent] = self._time_to_saved.labels(agent)
        series.observe(seconds)

    def check(self, *, agent: str, result: str) -> None:
        """Count a delivery that was looked for among what its specialist keeps; ``result`` is a code."""
        self._checks.labels(agent, result).inc()

    def jwks_fetch(self, outcome: FetchOutcome) -> None:
        self._jwks.labels(outcome).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type, as the scraper's Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
