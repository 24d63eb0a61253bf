"""What the operators' operations on submissions promise."""

from typing import Final

from relay.delivery.model import State
from relay.http.operations import Answer, Carrying, Operation
from relay.operators.agents.wire import ReasonBody
from relay.operators.submissions.wire import (
    ActionDone,
    OwnerKey,
    RatedId,
    SubmissionsQuery,
    SubmissionStory,
    TenantSubmissionPage,
)

_PATH: Final = {"owner": OwnerKey, "id": RatedId}

LIST: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    query=SubmissionsQuery,
    answers={200: Answer("A page of submissions.", TenantSubmissionPage)},
)

SHOW: Final = Operation(
    tag="operators",
    scopes=("operator:read",),
    path=_PATH,
    answers={200: Answer("The submission with its story.", SubmissionStory)},
    refusals=("submission_not_found",),
)

RETRY: Final = Operation(
    tag="operators",
    scopes=("operator:write",),
    path=_PATH,
    body=ReasonBody,
    examples={"a reason": {"why": "the specialist is back"}},
    answers={200: Answer("What was done, and what stands in the way of sending it.", ActionDone)},
    refusals=("submission_not_found", Carrying("not_retryable", "state", State), "submission_erased"),
)

ABANDON: Final = Operation(
    tag="operators",
    scopes=("operator:write",),
    path=_PATH,
    body=ReasonBody,
    examples={"a reason": {"why": "the specialist was shut down for good"}},
    answers={200: Answer("It was given up.", ActionDone)},
    refusals=("submission_not_found", Carrying("not_abandonable", "state", State), "submission_erased"),
)
