"""Instants as operators write them into filters: RFC 3339, always with a zone."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import Meta

from relay.errors import FieldProblem, Refusal
from relay.http.parameters import invalid_parameter

InstantText = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        description="A time with its zone, such as 2026-03-01T09:30:00Z.",
        extra_json_schema={"format": "date-time"},
    ),
]

_EXPECTED: Final = "give a time with its zone, such as 2026-03-01T09:30:00Z (in a query, + is %2B)"


def from_query(name: str, text: str | None) -> int | None:
    """Milliseconds since the epoch. Raises `Refusal`: 400 that names the parameter."""
    if text is None:
        return None
    found = _milliseconds(text)
    if found is None:
        raise invalid_parameter(name, _EXPECTED)
    return found


def from_body(pointer: str, text: str | None) -> int | None:
    """The same for a field of a body: 422 that points at it."""
    if text is None:
        return None
    found = _milliseconds(text)
    if found is None:
        detail = f"{_EXPECTED[0].upper()}{_EXPECTED[1:]}."
        raise Refusal("invalid_field", detail, errors=(FieldProblem(pointer, detail),))
    return found


def _milliseconds(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
