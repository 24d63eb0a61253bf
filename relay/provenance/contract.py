"""What recording provenance promises."""

from typing import Final

from relay.http.identifiers import PathIdentifier
from relay.http.operations import Answer, Operation
from relay.provenance.wire import TaskBody, TaskShown

RECORD: Final = Operation(
    tag="provenance",
    scopes=("provenance:write",),
    path={"agent": PathIdentifier, "taskId": PathIdentifier},
    body=TaskBody,
    examples={
        "a finished task": {
            "conversationId": "conversation-7",
            "answerId": "answer-12",
            "role": "specialist",
            "status": "completed",
            "parentTaskId": "plan-3",
            "evidence": [{"kind": "tool_call", "id": "search-1"}],
        },
        "a task of a person, recorded by a machine client": {
            "conversationId": "conversation-7",
            "answerId": "answer-12",
            "role": "specialist",
            "status": "running",
            "ranAs": "client",
            "subject": "person-4711",
        },
    },
    answers={
        200: Answer("A repeat, or a change that the record allows.", TaskShown),
        201: Answer(
            "Recorded for the first time.",
            TaskShown,
            example={
                "agent": "literature",
                "taskId": "task-1",
                "conversationId": "conversation-7",
                "answerId": "answer-12",
                "role": "specialist",
                "status": "completed",
                "ranAs": "owner",
                "parentTaskId": "plan-3",
                "runId": None,
                "evidence": [{"kind": "tool_call", "id": "search-1"}],
                "registrationVersion": 1,
                "createdAt": "2026-03-01T09:30:00.000Z",
                "finishedAt": "2026-03-01T09:30:00.000Z",
            },
        ),
    },
    refusals=(
        "client_not_allowed",
        "agent_not_allowed",
        "subject_not_allowed",
        "ran_as_not_allowed",
        "agent_not_found",
        "provenance_conflict",
    ),
)
