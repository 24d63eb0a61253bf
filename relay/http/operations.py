"""What an operation promises its callers, declared beside the handler that keeps the promise.

The OpenAPI document is made of nothing but these declarations, the routes they hang on and the types they name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import msgspec
from aiohttp.typedefs import Handler

from relay.errors import Code
from relay.http.parameters import NoParameters
from relay.identity.model import Scope

H = TypeVar("H", bound=Handler)

RequestHeader = Literal["Prefer", "Last-Event-ID"]
AnswerHeader = Literal["Location", "Preference-Applied", "Content-Disposition"]
Tag = Literal["provenance", "targets", "feedback", "agents", "operators", "operation", "widget"]

UNLIMITED: Final[frozenset[Tag]] = frozenset({"operation", "widget"})
"""Of operations that are never counted: watching the relay, and files that are the same for everybody."""

_KEPT_AS = "operation"


@dataclass(frozen=True, slots=True)
class Answer:
    """One way in which an operation succeeds. ``type`` is what the handler encodes; without one the body is text."""

    description: str
    type: Any = str
    media_types: tuple[str, ...] = ("application/json",)
    headers: tuple[AnswerHeader, ...] = ()
    example: Any = None


@dataclass(frozen=True, slots=True)
class Carrying:
    """A refusal whose problem document has one member more than others."""

    code: Code
    member: str
    type: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. Its summary and description are the handler's docstring.

    ``scopes`` are those of which a token needs one; without any, no token is asked for. ``path`` gives the types of
    the path's segments, by name. ``query`` None: the query is not looked at. ``database``: whether it takes one to
    answer. ``refusals`` are the operation's own; those that follow from the other members are not repeated.
    """

    tag: Tag
    answers: Mapping[int, Answer]
    scopes: tuple[Scope, ...] = ()
    path: Mapping[str, Any] = field(default_factory=dict)
    query: type[msgspec.Struct] | None = NoParameters
    headers: tuple[RequestHeader, ...] = ()
    body: type[msgspec.Struct] | None = None
    examples: Mapping[str, Any] = field(default_factory=dict)
    refusals: tuple[Code | Carrying, ...] = ()
    database: bool = True


def described(operation: Operation) -> Callable[[H], H]:
    """Declare what the decorated handler does."""

    def describe(handler: H) -> H:
        vars(handler)[_KEPT_AS] = operation
        return handler

    return describe


def operation_of(handler: object) -> Operation:
    """What was declared of a handler. Raises LookupError where nothing was: every route is described."""
    operation: Operation | None = vars(handler).get(_KEPT_AS)
    if operation is None:
        raise LookupError(f"{handler!r} is a route without a description: decorate it with `described`")
    return operation
