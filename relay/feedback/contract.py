"""What the operations on feedback promise."""

from typing import Final

from relay.delivery.model import State
from relay.feedback.wire import (
    AnswerTargets,
    FeedbackBody,
    FeedbackQuery,
    SubmissionId,
    SubmissionPage,
    SubmissionShown,
    TargetShown,
    TargetsPage,
)
from relay.http.identifiers import PathIdentifier
from relay.http.operations import Answer, AnswerHeader, Carrying, Operation
from relay.http.parameters import Page

_ID: Final = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
_SAVED: Final = {
    "id": _ID,
    "saved": True,
    "state": "saved",
    "agent": "literature",
    "taskId": "task-1",
    "rating": "down",
    "comment": "The unit is wrong",
    "createdAt": "2026-03-01T09:31:00.000Z",
    "savedAt": "2026-03-01T09:31:00.240Z",
    "nextAttemptAt": None,
    "lastAttempt": {
        "number": 1,
        "cause": "accept",
        "at": "2026-03-01T09:31:00.010Z",
        "outcome": "saved",
        "reason": None,
        "status": 201,
        "ambiguous": False,
    },
    "evidence": "unchecked",
    "evidenceAt": None,
    "resolution": None,
    "runId": "run-7",
}
_CHECKED: Final = {
    **_SAVED,
    "evidence": "confirmed",
    "evidenceAt": "2026-03-02T10:02:11.300Z",
    "resolution": "fixed",
}
_FAILED_ONCE: Final = {
    "number": 1,
    "cause": "accept",
    "at": "2026-03-01T09:31:00.010Z",
    "outcome": "retry",
    "reason": "server_error",
    "status": 503,
    "ambiguous": False,
}
_WAITING: Final = {
    **_SAVED,
    "saved": False,
    "state": "pending",
    "savedAt": None,
    "nextAttemptAt": "2026-03-01T09:31:05.010Z",
    "lastAttempt": _FAILED_ONCE,
}
_REJECTED: Final = {
    **_SAVED,
    "saved": False,
    "state": "rejected",
    "savedAt": None,
    "lastAttempt": {**_FAILED_ONCE, "outcome": "rejected", "reason": "unprocessable", "status": 422},
}
_TARGETS: Final = {
    "answerId": "answer-12",
    "ownerKey": "ok_mfrggzdfmztwq2lkn5xw4zlnna",
    "retentionDays": 365,
    "explicitTargetRequired": False,
    "targets": [
        {
            "agent": "literature",
            "agentName": "Literature specialist",
            "taskId": "task-1",
            "status": "completed",
            "rateable": False,
            "reason": "already_submitted",
            "submission": _SAVED,
        }
    ],
}

_ABOUT_ONE: Final[tuple[AnswerHeader, ...]] = ("Location", "Preference-Applied")

SUBMIT: Final = Operation(
    tag="feedback",
    scopes=("feedback:write",),
    headers=("Prefer",),
    body=FeedbackBody,
    examples={
        "thumbs up": {"id": _ID, "taskId": "task-1", "rating": "up"},
        "thumbs down with a comment, at one of several agents": {
            "id": _ID,
            "taskId": "task-1",
            "rating": "down",
            "comment": "The unit is wrong",
            "agent": "literature",
        },
    },
    answers={
        200: Answer(
            "An exact repeat of one that is final and not saved: only an explicit retry sends it again.",
            SubmissionShown,
            headers=_ABOUT_ONE,
            example=_REJECTED,
        ),
        201: Answer(
            "Saved: the specialist has acknowledged exactly this submission, now or before.",
            SubmissionShown,
            headers=_ABOUT_ONE,
            example=_SAVED,
        ),
        202: Answer(
            "Stored, and not acknowledged within the wait. `state` says how it stands, `nextAttemptAt` when it is "
            "tried again.",
            SubmissionShown,
            headers=_ABOUT_ONE,
            example=_WAITING,
        ),
    },
    refusals=(
        "task_not_found",
        "uuid_reused",
        Carrying("already_submitted", "existing", SubmissionShown),
        "task_not_finished",
        "destination_not_approved",
        "feedback_not_supported",
        "destination_cannot_act_for_owner",
        "submission_erased",
        Carrying("explicit_target_required", "targets", list[TargetShown]),
        "coordinator_task",
        "accept_queue_full",
    ),
)

LIST: Final = Operation(
    tag="feedback",
    scopes=("feedback:read",),
    query=FeedbackQuery,
    answers={200: Answer("A page of submissions.", SubmissionPage, example={"items": [_CHECKED], "next": None})},
)

EVENTS: Final = Operation(
    tag="feedback",
    scopes=("feedback:read",),
    headers=("Last-Event-ID",),
    answers={
        200: Answer(
            "Server-sent events named `feedback`; the data of each is the submission as `show_feedback` answers it. One"
            " named `resync` says that changes since the `Last-Event-ID` are not kept any more: list again.",
            media_types=("text/event-stream",),
        )
    },
)

SHOW: Final = Operation(
    tag="feedback",
    scopes=("feedback:read",),
    path={"id": SubmissionId},
    answers={200: Answer("The submission as it stands.", SubmissionShown, example=_CHECKED)},
    refusals=("submission_not_found",),
)

RETRY: Final = Operation(
    tag="feedback",
    scopes=("feedback:write",),
    path={"id": SubmissionId},
    headers=("Prefer",),
    answers={
        200: Answer(
            "Somebody else's retry came first and has ended in a final state that is not saved.",
            SubmissionShown,
            headers=_ABOUT_ONE,
            example=_REJECTED,
        ),
        201: Answer("Saved, now or before.", SubmissionShown, headers=_ABOUT_ONE, example=_SAVED),
        202: Answer(
            "Not acknowledged within the wait, or something stands in the way: see `state` and `nextAttemptAt`.",
            SubmissionShown,
            headers=_ABOUT_ONE,
            example=_WAITING,
        ),
    },
    refusals=("submission_not_found", Carrying("not_retryable", "state", State), "submission_erased"),
)

TARGETS_OF_ANSWER: Final = Operation(
    tag="targets",
    scopes=("feedback:read", "provenance:write"),
    path={"answerId": PathIdentifier},
    answers={200: Answer("The specialists; coordinators are not among them.", AnswerTargets, example=_TARGETS)},
    refusals=("answer_not_found",),
)

TARGETS_OF_CONVERSATION: Final = Operation(
    tag="targets",
    scopes=("feedback:read", "provenance:write"),
    path={"conversationId": PathIdentifier},
    query=Page,
    answers={200: Answer("A page of answers.", TargetsPage, example={"items": [_TARGETS], "next": None})},
    refusals=("conversation_not_found",),
)
