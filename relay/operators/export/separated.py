"""Comma-separated values (RFC 4180), safe to open in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final

from relay.clock import rfc3339
from relay.operators.export.rows import COLUMNS, Column
from relay.operators.submissions.model import Submission

TRIGGERS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a cell for a formula (OWASP, CSV Injection), in its full-width forms as well."""


class Separated:
    """A header, then a line each, every cell in quotation marks. What is absent is empty."""

    def begin(self) -> bytes:
        return _lines([[column.name for column in COLUMNS]])

    def rows(self, batch: Sequence[Submission]) -> bytes:
        return _lines([_cell(column, column.value(submission)) for column in COLUMNS] for submission in batch)

    def end(self) -> bytes:
        return b""


def neutralised(value: str) -> str:
    """The text with an apostrophe before it where a spreadsheet would run it as a formula."""
    return f"'{value}" if value.startswith(TRIGGERS) else value


def _cell(column: Column, value: Any) -> str:  # noqa: ANN401 - of any kind of column
    if value is None:
        return ""
    match column.kind:
        case "instant":
            return rfc3339(value)
        case "number":
            return str(value)
        case "text":
            return neutralised(value)


def _lines(rows: Iterable[Sequence[str]]) -> bytes:
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(rows)
    return written.getvalue().encode()
