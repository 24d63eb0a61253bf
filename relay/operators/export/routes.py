"""``/api/operator/export``"""

import asyncio
import uuid
from typing import Final

from aiohttp import web

from relay.http.downloads import download
from relay.http.operations import described
from relay.http.parameters import read_query
from relay.identity.authentication import authorize_operator
from relay.operators.actors import actor
from relay.operators.export import contract
from relay.operators.export.exporting import Export, Exports
from relay.operators.export.formats import FORMATS, make
from relay.operators.export.wire import ExportQuery

EXPORTS: Final = web.AppKey("exports", Exports)

routes = web.RouteTableDef()


@routes.get("/api/operator/export", name="export_submissions", allow_head=False)
@described(contract.EXPORT)
async def export(request: web.Request) -> web.StreamResponse:
    """The submissions of the operator's own tenant as a file, newest first, however many there are.

    In CSV, what a spreadsheet would run as a formula has an apostrophe before it; JSON Lines and Parquet have every
    text as it is. Owners are shown by their keys. The audit log says who made it, under which filter, and how many went
    out.
    """
    principal = await authorize_operator(request, "operator:read")
    query = read_query(request, ExportQuery)
    wanted = query.wanted()
    file = await asyncio.to_thread(make, query.format)
    by = await actor(request, principal)
    asked = Export(id=str(uuid.uuid4()), tenant=principal.tenant, wanted=wanted, format=query.format, by=by)
    kind = FORMATS[query.format]
    parts = request.app[EXPORTS].parts(asked, file)
    return await download(request, parts, media_type=kind.media_type, filename=f"submissions.{kind.extension}")
