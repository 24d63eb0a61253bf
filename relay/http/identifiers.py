"""Ids that callers give us: 1 to 256 characters without controls, kept exactly as they came."""

import re
from typing import Annotated

from aiohttp import web
from msgspec import Meta

from relay.errors import FieldProblem, Refusal

# A dollar sign alone would let a trailing newline through.
PATTERN = r"^[^\u0000-\u001f\u007f-\u009f]{1,256}$(?!\n)"

Identifier = Annotated[str, Meta(min_length=1, max_length=256, pattern=PATTERN)]

_IDENTIFIER = re.compile(PATTERN)


def path_identifier(request: web.Request, name: str) -> str:
    """One percent-decoded path segment as an identifier. Dots alone would be another path to whoever normalises it."""
    value = request.match_info[name]
    if value in {".", ".."} or not _IDENTIFIER.match(value):
        detail = "An id has 1 to 256 characters, no control characters, and is not a lone dot or two."
        raise Refusal("invalid_field", detail, errors=(FieldProblem(f"/{name}", detail),))
    return value
