"""What an export promises."""

from typing import Final

from relay.http.operations import Answer, Operation
from relay.operators.export.formats import FORMATS
from relay.operators.export.wire import ExportQuery

EXPORT: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=ExportQuery,
    answers={
        200: Answer(
            "The file. It is complete if the answer ends as HTTP says it should.",
            media_types=tuple(described.media_type for described in FORMATS.values()),
            headers=("Content-Disposition",),
        )
    },
    refusals=("export_format_unavailable",),
)
