"""Query parameters as msgspec Structs, and path segments that hold any id."""

import re
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from aiohttp import web

from relay.errors import Refusal
from relay.http.fields import bare, problems

S = TypeVar("S", bound=msgspec.Struct)

DEFAULT_LIMIT = 50
MAX_LIMIT = 100

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)]
CursorText = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

_INTEGER = re.compile("-?[0-9]{1,18}")


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a route that takes none."""


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The query of a plain list; lists with filters add theirs by inheriting."""

    limit: Limit = DEFAULT_LIMIT
    cursor: CursorText | None = None


def segment(name: str) -> str:
    """A path segment of a route that may hold anything but a raw slash; aiohttp's own ``{name}`` refuses braces."""
    return f"{{{name}:[^/]+}}"


def read_query(request: web.Request, type_: type[S]) -> S:
    """The query as ``type_``, else 400 ``invalid_parameter`` with the name in the detail and in ``parameter``.

    An integer is ASCII digits, a boolean ``true`` or ``false``, everything else the text itself; a parameter that is
    unknown or repeated is refused.
    """
    if not request.query_string:
        empty: S = _without_parameters(type_)
        return empty
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    values: dict[str, object] = {}
    for name, text in request.query.items():
        if name not in fields:
            raise unknown_parameter(name, fields)
        if name in values:
            raise invalid_parameter(name, "give it once")
        values[name] = _typed(text, fields[name])
    return _converted(values, type_)


@cache
def _without_parameters(type_: type[S]) -> S:
    """Most requests have none, and a Struct of the edge is immutable."""
    return _converted({}, type_)


def _converted(values: dict[str, object], type_: type[S]) -> S:
    try:
        converted: S = msgspec.convert(values, type_)
    except msgspec.ValidationError:
        problem = next(problems(values, type_))
        name = problem.pointer.removeprefix("/")
        raise invalid_parameter(name, problem.detail.removesuffix(".")) from None
    return converted


def invalid_parameter(name: str, reason: str) -> Refusal:
    """The 400 that names a parameter."""
    return Refusal("invalid_parameter", f"{name}: {reason}.", extra={"parameter": name})


def unknown_parameter(name: str, known: dict[str, Any]) -> Refusal:
    name = name[:100]
    takes = f"this resource takes {', '.join(known)}" if known else "this resource takes no parameters"
    return invalid_parameter(name, f"unknown; {takes}")


def _typed(text: str, type_: Any) -> object:  # noqa: ANN401 - any annotation
    """The text as the type wants it. msgspec's own lax mode reads ``null``, ``1e2`` and ``1.0`` as other things."""
    wanted = bare(type_)
    if wanted is int and _INTEGER.fullmatch(text):
        return int(text)
    if wanted is bool and text in {"true", "false"}:
        return text == "true"
    return text
