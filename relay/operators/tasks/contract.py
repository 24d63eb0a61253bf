"""What the operations on odd tasks promise."""

from typing import Final

from relay.http.operations import Answer, Operation
from relay.operators.tasks.wire import ContestedPage, LongRunningPage, TasksQuery

CONTESTED: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=TasksQuery,
    answers={200: Answer("A page of tasks.", ContestedPage)},
)

LONG_RUNNING: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=TasksQuery,
    answers={200: Answer("A page of tasks.", LongRunningPage)},
)
