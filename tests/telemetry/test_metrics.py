"""What is counted, and how it is rendered."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from relay.telemetry import Metrics
from relay.telemetry.gauges import OpenJobs, Waiting


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(metrics.render()[0].decode())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_everything_is_counted_under_our_name() -> None:
    """Each count stands under feedback_relay with its labels."""
    metrics = Metrics()
    metrics.request(route="/api/feedback", method="POST", status=201, seconds=0.3)
    metrics.accepted("literature", 2)
    metrics.accepted("literature")
    metrics.attempt(agent="literature", outcome="saved", seconds=0.2)
    metrics.attempt(agent="literature", outcome="retry", seconds=12.0, reason="token_refused:invalid_grant")
    metrics.attempt(agent="literature", outcome="retry", seconds=0.1, reason="not_json", unmatched=True)
    metrics.settled(agent="literature", state="saved")
    metrics.saved(agent="literature", seconds=4.0)
    metrics.queue_full()
    metrics.gauges.accept_queue(7, 1024)
    metrics.jwks_fetch("stale")
    counted = values(metrics)
    assert counted["feedback_relay_requests_total", "POST", "/api/feedback", "201"] == 1
    assert counted["feedback_relay_request_duration_seconds_sum", "POST", "/api/feedback"] == 0.3
    assert counted["feedback_relay_submissions_accepted_total", "literature"] == 3
    assert counted["feedback_relay_attempts_total", "literature", "saved"] == 1
    assert counted["feedback_relay_attempts_total", "literature", "retry"] == 2
    assert counted["feedback_relay_attempt_duration_seconds_count", "literature"] == 3
    assert counted["feedback_relay_attempt_failures_total", "literature", "token_refused"] == 1
    assert counted["feedback_relay_unmatched_acknowledgements_total", "literature"] == 1
    assert counted["feedback_relay_deliveries_settled_total", "literature", "saved"] == 1
    assert counted["feedback_relay_time_to_saved_seconds_sum", "literature"] == 4
    assert counted["feedback_relay_accept_queue_refused_total",] == 1
    assert counted["feedback_relay_accept_queue_length",] == 7
    assert counted["feedback_relay_accept_queue_capacity",] == 1024
    assert counted["feedback_relay_jwks_fetches_total", "stale"] == 1
    assert {name.split("_")[0] for name, *_labels in counted} == {"feedback"}


def test_what_empties_does_not_linger() -> None:
    """Gauges that are set from the database forget what no longer stands there; an agent without a backlog has zeros,
    and where the database is away nothing is claimed.
    """
    metrics = Metrics()
    gauges = metrics.gauges
    waiting = [Waiting("literature", "held", 3, 60.0), Waiting("gone", "pending", 1, 5.0)]
    gauges.database(agents=["literature"], waiting=waiting, breakers={"literature": "open"}, jobs=[], seconds=0.1)
    gauges.database(agents=["literature"], waiting=[], breakers={}, jobs=[OpenJobs("retry", 1, 2.0)], seconds=0.1)
    counted = values(metrics)
    assert counted["feedback_relay_deliveries", "literature", "held"] == 0
    assert counted["feedback_relay_deliveries_oldest_seconds", "literature", "held"] == 0
    assert ("feedback_relay_deliveries", "gone", "pending") not in counted
    assert counted["feedback_relay_breaker_state", "literature", "open"] == 0
    assert counted["feedback_relay_breaker_state", "literature", "closed"] == 1
    assert counted["feedback_relay_jobs_idle_seconds", "retry"] == 2
    assert counted["feedback_relay_database_up",] == 1
    gauges.database_away()
    counted = values(metrics)
    assert counted["feedback_relay_database_up",] == 0
    assert not {name for name, *labels in counted if "literature" in labels or "retry" in labels}


def test_what_matters_at_its_first_event_begins_at_zero() -> None:
    """Prometheus sees no increase in a series that was not there before."""
    metrics = Metrics()
    metrics.introduce(["literature"])
    assert values(metrics)["feedback_relay_deliveries_settled_total", "literature", "exhausted"] == 0
    assert values(metrics)["feedback_relay_unmatched_acknowledgements_total", "literature"] == 0


def test_two_in_one_process_do_not_add_up() -> None:
    """Each has a registry of its own."""
    first, second = Metrics(), Metrics()
    first.gauges.accept_queue(5, 9)
    second.gauges.accept_queue(1, 9)
    assert values(first)["feedback_relay_accept_queue_length",] == 5


def test_the_scraper_chooses_the_format() -> None:
    """OpenMetrics where it is asked for, the plain text format otherwise."""
    metrics = Metrics()
    metrics.gauges.accept_queue(5, 9)
    text, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert list(parse_openmetrics(text.decode()))
    assert metrics.render()[1].startswith("text/plain")
