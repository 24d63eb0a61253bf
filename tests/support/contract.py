"""Holds every answer that a test gets from the gateway against the OpenAPI document."""

import json
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from openapi_schema_validator import OAS31Validator, oas31_format_checker

from relay.api import document
from relay.http.problems import CONTENT_TYPE

Json = dict[str, Any]


@cache
def described() -> Json:
    return document()


OPERATIONS: list[tuple[str, str, Json]] = [
    (method.upper(), path, operation)
    for path, operations in described()["paths"].items()
    for method, operation in operations.items()
]
"""Every operation with its method and path."""


def resolved(node: Json) -> Json:
    """The node, or what its reference points at."""
    while "$ref" in node:
        found: Any = described()
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


@cache
def validator(status: int, method: str, template: str, media_type: str) -> OAS31Validator:
    """For the bodies of this answer. An assertion fails where the document has no such answer."""
    responses = described()["paths"][template][method]["responses"]
    assert str(status) in responses, f"{method} {template}: {status} is not documented"
    content = resolved(responses[str(status)])["content"]
    assert media_type in content, f"{method} {template}: {status} of type {media_type} is not documented"
    return _validator(content[media_type]["schema"])


@cache
def problem_validator() -> OAS31Validator:
    return _validator({"$ref": "#/components/schemas/Problem"})


def _validator(schema: Json) -> OAS31Validator:
    # A reference is looked up from the root of the schema that holds it.
    rooted = {**schema, "components": described()["components"]}
    return OAS31Validator(rooted, format_checker=oas31_format_checker)


def template_of(path: str) -> str | None:
    """The documented path that a path belongs to; one without variables goes before one with them."""
    found = [template for template in described()["paths"] if _pattern(template).fullmatch(path)]
    return min(found, key=lambda template: template.count("{"), default=None)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)))


def check(method: str, target: str, status: int, headers: Mapping[str, str], body: bytes) -> None:
    """Fail unless the document has this answer: its status, its media type, and a schema that its body fits."""
    template = template_of(target.partition("?")[0])
    media_type = headers.get("Content-Type", "").partition(";")[0]
    if template is None or method.lower() not in described()["paths"][template]:
        _check_unrouted(method, status, media_type, body)
    elif media_type.endswith("json"):
        validator(status, method.lower(), template, media_type).validate(json.loads(body))
    else:
        validator(status, method.lower(), template, media_type)


def _check_unrouted(method: str, status: int, media_type: str, body: bytes) -> None:
    if method in {"HEAD", "OPTIONS"} and not body:
        return
    assert media_type == CONTENT_TYPE
    assert status >= HTTPStatus.BAD_REQUEST
    problem_validator().validate(json.loads(body))
