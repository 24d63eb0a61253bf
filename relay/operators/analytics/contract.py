"""What the analytics promise."""

from typing import Final

from relay.http.operations import Answer, Operation
from relay.operators.analytics.wire import AnalyticsAnswer, AnalyticsQuery

ANALYZE: Final = Operation(
    tag="operators",
    scopes=("feedback:read", "operator:read"),
    query=AnalyticsQuery,
    answers={200: Answer("The figures.", AnalyticsAnswer)},
)
