"""Exports at the edge."""

from relay.operators.export.formats import FormatName
from relay.operators.submissions.wire import FilterQuery


class ExportQuery(FilterQuery, frozen=True, kw_only=True):
    """Which of the tenant's submissions, and as what."""

    format: FormatName
