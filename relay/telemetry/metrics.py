"""What can be counted, for Prometheus. Labels take values from a bounded set: routes, agents, states, outcomes."""

from collections.abc import Mapping
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

FetchOutcome = Literal["fetched", "failed", "stale"]
"""Of an issuer's keys: had, not had, or not had while older ones still serve."""

_REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ATTEMPT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

NAMESPACE = "feedback_relay"


class Metrics:
    """The counters of one process, in a registry of its own, so that two in one process do not add up."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        # Finding a series by its labels takes a lock and builds a key of texts: every request would pay for it.
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._accepted_by: dict[str, Counter] = {}
        self._requests = Counter(
            "requests",
            "Requests answered, by route template.",
            ("route", "method", "status"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self._request_duration = Histogram(
            "request_duration_seconds",
            "Time from the headers of a request to the end of its answer.",
            ("route", "method"),
            namespace=NAMESPACE,
            registry=registry,
            buckets=_REQUEST_BUCKETS,
        )
        self._accepted = Counter(
            "submissions_accepted", "Submissions stored.", ("agent",), namespace=NAMESPACE, registry=registry
        )
        self._attempts = Counter(
            "attempts",
            "Attempts to deliver, by what came of them.",
            ("agent", "outcome"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self._attempt_duration = Histogram(
            "attempt_duration_seconds",
            "Time that an attempt took, credentials included.",
            ("agent",),
            namespace=NAMESPACE,
            registry=registry,
            buckets=_ATTEMPT_BUCKETS,
        )
        self._checks = Counter(
            "checks",
            "Deliveries read back from their specialists, by what was found.",
            ("agent", "result"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self._deliveries = Gauge(
            "deliveries", "Deliveries by state, all tenants.", ("state",), namespace=NAMESPACE, registry=registry
        )
        self._queue = Gauge(
            "accept_queue_length", "Submissions that wait to be stored.", namespace=NAMESPACE, registry=registry
        )
        self._jwks = Counter(
            "jwks_fetches", "Fetches of an issuer's keys.", ("outcome",), namespace=NAMESPACE, registry=registry
        )

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

    def attempt(self, *, agent: str, outcome: str, seconds: float) -> None:
        """Count an attempt; ``outcome`` is a code, such as a state or an error's kind."""
        self._attempts.labels(agent, outcome).inc()
        self._attempt_duration.labels(agent).observe(seconds)

    def check(self, *, agent: str, result: str) -> None:
        """Count a delivery that was looked for among what its specialist keeps; ``result`` is a code."""
        self._checks.labels(agent, result).inc()

    def deliveries(self, counts: Mapping[str, int]) -> None:
        """Set how many deliveries stand in each state; a state that is left out has none, and vanishes."""
        self._deliveries.clear()
        for state, count in counts.items():
            self._deliveries.labels(state).set(count)

    def accept_queue(self, length: int) -> None:
        self._queue.set(length)

    def jwks_fetch(self, outcome: FetchOutcome) -> None:
        self._jwks.labels(outcome).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The exposition and its content type, as the scraper's Accept header prefers."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
