"""What operators see: log lines, metrics, and the trace that ties them to what callers and specialists see."""

from relay.telemetry.logs import configure_logging
from relay.telemetry.metrics import Metrics
from relay.telemetry.traces import TraceContext

__all__ = ["Metrics", "TraceContext", "configure_logging"]
