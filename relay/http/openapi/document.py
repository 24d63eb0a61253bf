"""The document, put together from the routes and what is declared of each."""

import inspect
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from relay import __version__
from relay.http.openapi.refusals import UNROUTED, ProblemResponses, refusals_of
from relay.http.openapi.schemas import Schema, Schemas, markdown, parameter
from relay.http.operations import Answer, AnswerHeader, Operation, RequestHeader, Tag, operation_of
from relay.http.preferences import MAX_WAIT

_SEGMENT = re.compile(r"\{(\w+):[^{}]*\}")

_DESCRIPTION: Final = """\
Carries people's ratings of specialist AI agents to the very specialist whose run earned them, once.

Send JSON in UTF-8 and a bearer token (RFC 6750, RFC 9068) in the `Authorization` header. Every refusal is a problem
document (RFC 9457): branch on `code`, show `detail`. What is unknown is refused and never ignored: fields of a body,
parameters of a query, members given twice.

What is somebody else's is answered exactly as what does not exist. A path that is not listed here is answered with 404
`not_found`, a method that its path does not have with 405 `method_not_allowed`, with an `Allow` header.

Where requests are limited, answers carry `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers):
how many requests a minute one owner, client or address may make, and how many are left. Beyond them the answer is 429
`rate_limited`.\
"""

_TAGS: Final[Mapping[Tag, str]] = {
    "provenance": "Which specialist tasks an answer came from.",
    "targets": "What may be rated.",
    "feedback": "Ratings, and what became of each.",
    "operators": "A tenant's submissions: finding them, acting on them, and who did what. Operators are people.",
    "agents": "Where ratings may go, and how it fares there. For operators.",
    "operation": "For those who run the relay. No token is asked for.",
    "widget": "Files for web pages. No token is asked for, and any origin may load them.",
}

_REQUEST_HEADERS: Final[Mapping[RequestHeader, Schema]] = {
    "Prefer": {
        "type": "string",
        "description": f"RFC 7240. `wait=N`, 0 to {MAX_WAIT} whole seconds (2 without the header), bounds how long the "
        "answer may wait for the acknowledgement; `respond-async` is answered right after the commit.",
        "examples": ["wait=5", "respond-async"],
    },
    "Last-Event-ID": {
        "type": "string",
        "description": "The id of the last event that was received: the stream goes on after it.",
    },
}

_ANSWER_HEADERS: Final[Mapping[AnswerHeader, tuple[bool, str]]] = {
    "Location": (True, "Where the submission is shown."),
    "Content-Disposition": (True, "A name for the file (RFC 6266)."),
    "Preference-Applied": (False, "The preference that was honoured, if one was sent (RFC 7240 section 3)."),
}


def document(routes: Iterable[web.AbstractRouteDef], words: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
    """The OpenAPI 3.1 document of these routes, whose handlers were all `described`; ``words`` are Literals by name."""
    schemas = Schemas(words)
    problems = ProblemResponses(schemas)
    paths: dict[str, dict[str, Schema]] = {}
    for route in routes:
        if isinstance(route, web.RouteDef):
            path = _SEGMENT.sub(r"{\1}", route.path)
            paths.setdefault(path, {})[route.method.lower()] = _operation(route, schemas, problems)
    for code in UNROUTED:
        problems.unrouted(code)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Feedback relay", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/", "description": "The gateway that serves this document."}],
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": dict(sorted(problems.components.items())),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "An access token (RFC 9068) of an issuer that this relay is configured for.",
                }
            },
        },
    }


def _operation(route: web.RouteDef, schemas: Schemas, problems: ProblemResponses) -> Schema:
    operation = operation_of(route.handler)
    summary, _, description = markdown(inspect.getdoc(route.handler) or "").partition("\n\n")
    described: Schema = {"operationId": route.kwargs["name"], "tags": [operation.tag], "summary": summary}
    if text := "\n\n".join(filter(None, (description, _scopes(operation)))):
        described["description"] = text
    if parameters := _parameters(operation, schemas):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = _body(operation, schemas)
    described["responses"] = _responses(operation, schemas, problems)
    described["security"] = [{"bearer": [scope]} for scope in operation.scopes]
    return described


def _scopes(operation: Operation) -> str:
    if not operation.scopes:
        return ""
    return f"Scope: {' or '.join(f'`{scope}`' for scope in operation.scopes)}."


def _parameters(operation: Operation, schemas: Schemas) -> list[Schema]:
    parameters = [parameter(name, "path", schemas.of(type_)) for name, type_ in operation.path.items()]
    if operation.query is not None:
        parameters += schemas.parameters(operation.query)
    return parameters + [parameter(name, "header", _REQUEST_HEADERS[name]) for name in operation.headers]


def _body(operation: Operation, schemas: Schemas) -> Schema:
    examples = {name: {"value": value} for name, value in operation.examples.items()}
    content = {"schema": schemas.of(operation.body), "examples": examples}
    return {"required": True, "content": {"application/json": content}}


def _responses(operation: Operation, schemas: Schemas, problems: ProblemResponses) -> Schema:
    responses = {status: _response(answer, schemas) for status, answer in operation.answers.items()}
    for status, refusals in refusals_of(operation).items():
        if status in responses:
            raise ValueError(f"{status} is an answer and a refusal of the same operation")
        responses[status] = problems.of(refusals)
    return {str(status): response for status, response in sorted(responses.items())}


def _response(answer: Answer, schemas: Schemas) -> Schema:
    content = {"schema": schemas.of(answer.type)}
    if answer.example is not None:
        content["example"] = answer.example
    response: Schema = {"description": answer.description, "content": dict.fromkeys(answer.media_types, content)}
    if answer.headers:
        response["headers"] = {name: _answer_header(name) for name in answer.headers}
    return response


def _answer_header(name: AnswerHeader) -> Schema:
    required, description = _ANSWER_HEADERS[name]
    return {"description": description, "required": required, "schema": {"type": "string"}}
