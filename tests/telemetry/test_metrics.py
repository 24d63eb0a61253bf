"""What is counted, and how it is rendered."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from relay.telemetry import Metrics


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
    metrics.attempt(agent="literature", outcome="deadline_exceeded", seconds=12.0)
    metrics.deliveries({"pending": 3, "saved": 4})
    metrics.accept_queue(7)
    metrics.jwks_fetch("stale")
    counted = values(metrics)
    assert counted["feedback_relay_requests_total", "POST", "/api/feedback", "201"] == 1
    assert counted["feedback_relay_request_duration_seconds_sum", "POST", "/api/feedback"] == 0.3
    assert counted["feedback_relay_submissions_accepted_total", "literature"] == 3
    assert counted["feedback_relay_attempts_total", "literature", "saved"] == 1
    assert counted["feedback_relay_attempts_total", "literature", "deadline_exceeded"] == 1
    assert counted["feedback_relay_attempt_duration_seconds_count", "literature"] == 2
    assert counted["feedback_relay_deliveries", "pending"] == 3
    assert counted["feedback_relay_accept_queue_length",] == 7
    assert counted["feedback_relay_jwks_fetches_total", "stale"] == 1
    assert {name.split("_")[0] for name, *_labels in counted} == {"feedback"}


def test_a_state_that_empties_does_not_linger() -> None:
    """A gauge that is set from what stands in the database forgets what no longer does."""
    metrics = Metrics()
    metrics.deliveries({"pending": 3})
    metrics.deliveries({"saved": 3})
    counted = values(metrics)
    assert ("feedback_relay_deliveries", "pending") not in counted
    assert counted["feedback_relay_deliveries", "saved"] == 3


def test_two_in_one_process_do_not_add_up() -> None:
    """Each has a registry of its own."""
    first, second = Metrics(), Metrics()
    first.accept_queue(5)
    second.accept_queue(1)
    assert values(first)["feedback_relay_accept_queue_length",] == 5


def test_the_scraper_chooses_the_format() -> None:
    """OpenMetrics where it is asked for, the plain text format otherwise."""
    metrics = Metrics()
    metrics.accept_queue(5)
    text, content_type = metrics.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert list(parse_openmetrics(text.decode()))
    assert metrics.render()[1].startswith("text/plain")
