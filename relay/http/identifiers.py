"""Words of the edge: ids that callers give us (1 to 256 characters without controls, kept as they came), instants."""

import re
from typing import Annotated

from aiohttp import web
from msgspec import Meta

from relay.errors import FieldProblem, Refusal

# A dollar sign alone would let a trailing newline through.
PATTERN = r"^[^\u0000-\u001f\u007f-\u009f]{1,256}$(?!\n)"

Identifier = Annotated[str, Meta(min_length=1, max_length=256, pattern=PATTERN)]

PathIdentifier = Annotated[
    Identifier,
    Meta(
        description="Percent-encoded as one segment, and never normalised.",
        extra_json_schema={"not": {"enum": [".", ".."]}},
    ),
]
"""What `path_identifier` takes."""

Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An instant as `relay.clock.rfc3339` writes it."""

_IDENTIFIER = re.compile(PATTERN)


def path_identifier(request: web.Request, name: str) -> str:
    """One percent-decoded path segment as an identifier. Dots alone would be another path to whoever normalises it."""
    value = request.match_info[name]
    if value in {".", ".."} or not _IDENTIFIER.match(value):
        detail = "An id has 1 to 256 characters, no control characters, and is not a lone dot or two."
        raise Refusal("invalid_field", detail, errors=(FieldProblem(f"/{name}", detail),))
    return value
