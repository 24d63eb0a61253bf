"""Which problem documents an operation may answer with, and what each looks like."""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from relay.errors import CODES, Code
from relay.http.identifiers import PathIdentifier
from relay.http.limits import Policy
from relay.http.openapi.schemas import Schema, Schemas
from relay.http.operations import UNLIMITED, Carrying, Operation
from relay.http.problems import CONTENT_TYPE, Problem
from relay.identity.scopes import OPERATOR_SCOPES

EVERYWHERE: Final[tuple[Code | Carrying, ...]] = (
    "malformed_request",
    "uri_too_long",
    "expectation_failed",
    "header_too_large",
    Carrying("internal_error", "reference", str),
)
"""What any request may meet, whichever operation it asks for."""

UNROUTED: Final[tuple[Code, ...]] = ("not_found", "method_not_allowed")
"""What a request meets that asks for no operation at all."""

ON_PAGES: Final[tuple[Code, ...]] = ("cross_site_request",)
"""What is met on pages of the console only, which no operation answers with."""

_OF_A_TOKEN: Final[tuple[Code, ...]] = ("unauthenticated", "insufficient_scope", "keys_unavailable")
_OF_A_BODY: Final[tuple[Code | Carrying, ...]] = (
    "malformed_json",
    "request_timeout",
    Carrying("body_too_large", "maxBytes", int),
    "unsupported_media_type",
    "unsupported_content_encoding",
    "invalid_field",
)

_HEADERS: Final[Mapping[Code, Mapping[str, str]]] = {
    "malformed_request": {"WWW-Authenticate": "The challenge of RFC 6750, if the token was sent in a wrong way."},
    "unauthenticated": {"WWW-Authenticate": "The challenge of RFC 6750."},
    "insufficient_user_authentication": {"WWW-Authenticate": "The challenge of RFC 9470: which sign-in is needed."},
    "rate_limited": {
        "Retry-After": "Seconds to wait before the same request is sent again.",
        "RateLimit-Policy": "The limits, by name (draft-ietf-httpapi-ratelimit-headers).",
        "RateLimit": "What is left of each limit, and for how many seconds.",
    },
    "insufficient_scope": {"WWW-Authenticate": "The challenge of RFC 6750, with the scope to ask for."},
    "method_not_allowed": {"Allow": "The methods of this path."},
    "unsupported_media_type": {"Accept": "The media type of a body."},
    "unsupported_content_encoding": {"Accept-Encoding": "The coding of a body."},
    "keys_unavailable": {"Retry-After": "Seconds to wait before the same request is sent again."},
    "accept_queue_full": {"Retry-After": "Seconds to wait before the same request is sent again."},
    "database_unavailable": {"Retry-After": "Seconds to wait before the same request is sent again."},
}

ByStatus = Mapping[int, Sequence[Carrying]]


def refusals_of(operation: Operation) -> ByStatus:
    """Every refusal that an operation may answer with, its own and those that follow from what it reads."""
    found = {refusal.code: refusal for refusal in map(_carrying, (*_implied(operation), *operation.refusals))}
    order = sorted(found.values(), key=lambda refusal: list(CODES).index(refusal.code))
    by_status: dict[int, list[Carrying]] = {}
    for refusal in order:
        by_status.setdefault(CODES[refusal.code][0], []).append(refusal)
    return by_status


def _implied(operation: Operation) -> Iterator[Code | Carrying]:
    yield from EVERYWHERE
    if operation.tag not in UNLIMITED:
        yield Carrying("rate_limited", "violated-policies", list[Policy])
    if OPERATOR_SCOPES.intersection(operation.scopes):
        yield "insufficient_user_authentication"
    if operation.scopes:
        yield from _OF_A_TOKEN
    if operation.query is not None:
        yield Carrying("invalid_parameter", "parameter", str)
    if operation.body is not None:
        yield from _OF_A_BODY
    if PathIdentifier in operation.path.values():
        yield "invalid_field"
    if operation.database:
        yield "database_unavailable"


def _carrying(refusal: Code | Carrying) -> Carrying:
    return refusal if isinstance(refusal, Carrying) else Carrying(refusal, "", None)


class ProblemResponses:
    """The responses that are problem documents, each set of codes once, named by its codes."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._problem = _problem(schemas)
        self.components: dict[str, Schema] = {}

    def of(self, refusals: Sequence[Carrying]) -> Schema:
        """A reference to the response with which these refusals, all of one status, are answered."""
        name = ".".join(refusal.code for refusal in refusals)
        if name not in self.components:
            self.components[name] = self._response(refusals)
        return {"$ref": f"#/components/responses/{name}"}

    def unrouted(self, code: Code) -> Schema:
        """A reference to the response of a request that asks for no operation."""
        return self.of([_carrying(code)])

    def _response(self, refusals: Sequence[Carrying]) -> Schema:
        plain = [refusal.code for refusal in refusals if not refusal.member]
        schemas = [self._schema(plain)] if plain else []
        schemas += [self._schema([r.code], {r.member: self._schemas.of(r.type)}) for r in refusals if r.member]
        description = "\n".join(f"- `{r.code}`: {CODES[r.code][1]}" for r in refusals)
        headers = {
            name: {"description": text, "schema": {"type": "string"}}
            for refusal in refusals
            for name, text in _HEADERS.get(refusal.code, {}).items()
        }
        return {
            "description": description,
            **({"headers": headers} if headers else {}),
            "content": {CONTENT_TYPE: {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}},
        }

    def _schema(self, codes: Sequence[Code], members: Mapping[str, Schema] | None = None) -> Schema:
        """A problem with one of these codes, and the members that go with it."""
        status = CODES[codes[0]][0]
        own = {"code": {"type": "string", "enum": list(codes)}, "status": {"const": status}, **(members or {})}
        return {"allOf": [self._problem, {"type": "object", "properties": own, "required": list(own)}]}


def _problem(schemas: Schemas) -> Schema:
    reference = schemas.of(Problem)
    codes: Any = {"type": "string", "enum": list(CODES), "description": _legend()}
    schemas.components["Problem"]["properties"]["code"] = schemas.refer("ProblemCode", codes)
    return reference


def _legend() -> str:
    """All codes with their status and title."""
    rows = [f"| `{code}` | {status} {HTTPStatus(status).phrase} | {title} |" for code, (status, title) in CODES.items()]
    return "\n".join(["What went wrong, for programs.", "", "| code | status | title |", "|---|---|---|", *rows])
