"""The gateway's routes, and ``/openapi.json``, which describes them."""

from functools import cache
from typing import Any, Final

import msgspec
from aiohttp import web

from relay import feedback, health, provenance
from relay.http import openapi
from relay.http.operations import Answer, Operation, described

DESCRIBE: Final = Operation(
    tag="operation", query=None, database=False, answers={200: Answer("The document.", dict[str, Any])}
)

routes = web.RouteTableDef()


@routes.get("/openapi.json", name="openapi")
@described(DESCRIBE)
async def describe(_request: web.Request) -> web.Response:
    """Describe this API in OpenAPI 3.1."""
    return web.Response(body=_encoded(), content_type="application/json")


ROUTES: Final = (*health.routes, *provenance.routes, *feedback.routes, *routes)


def document() -> dict[str, Any]:
    """The gateway's contract in OpenAPI 3.1."""
    return openapi.document(ROUTES)


@cache
def _encoded() -> bytes:
    return msgspec.json.encode(document())
