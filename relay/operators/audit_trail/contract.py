"""What reading the audit log promises."""

from typing import Final

from relay.http.operations import Answer, Operation
from relay.operators.audit_trail.wire import AuditPage, AuditQuery

READ: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=AuditQuery,
    answers={200: Answer("A page of entries.", AuditPage)},
)
