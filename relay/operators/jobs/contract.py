"""What the operations on jobs promise."""

from typing import Final

from relay.http.operations import Answer, Carrying, Operation
from relay.operators.jobs.model import JobState
from relay.operators.jobs.wire import ForecastShown, JobBody, JobKey, JobShown, JobsPage, JobsQuery

CREATE: Final = Operation(
    tag="operators",
    scopes=("operator:write",),
    body=JobBody,
    examples={
        "a dry run": {"kind": "retry", "filter": {"state": "exhausted", "agent": "literature"}, "dryRun": True},
        "giving up what waits": {
            "kind": "abandon",
            "filter": {"agent": "literature", "until": "2026-03-01T00:00:00Z"},
            "why": "shut down for good",
        },
    },
    answers={
        200: Answer("A dry run: what would be done. Nothing was.", ForecastShown),
        201: Answer("The job. It is worked off in the background.", JobShown),
    },
)

LIST: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=JobsQuery,
    answers={200: Answer("A page of jobs.", JobsPage)},
)

SHOW: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    path={"job": JobKey},
    answers={200: Answer("How far the job has come.", JobShown)},
    refusals=("job_not_found",),
)

CANCEL: Final = Operation(
    tag="operators",
    scopes=("operator:write",),
    path={"job": JobKey},
    answers={200: Answer("It touches nothing more. What it has done stays.", JobShown)},
    refusals=("job_not_found", Carrying("job_ended", "state", JobState)),
)
