"""Sending a list of rows into a statement as one JSON parameter: cheaper than arrays, and the same on both engines."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from relay.storage.engine import Dialect

ColumnType = Literal["int", "bigint", "text", "boolean", "json"]


def recordset(dialect: Dialect, parameter: str, columns: Mapping[str, ColumnType]) -> str:
    """SQL for a row source that reads ``:parameter``, a JSON array of objects, as these columns."""
    if dialect == "postgresql":
        typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        return f"(SELECT * FROM json_to_recordset(CAST(:{parameter} AS json)) AS _({typed}))"
    fields = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in columns)
    return f"(SELECT {fields} FROM json_each(:{parameter}))"


def dumps(rows: Iterable[Mapping[str, Any]]) -> str:
    """The parameter's value."""
    return msgspec.json.encode(list(rows)).decode()
