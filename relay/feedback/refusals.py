"""The words in which feedback is refused: each says what to change."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from relay.errors import Code, Refusal
from relay.feedback.model import Submission
from relay.feedback.wire import shown

DETAILS: Final[Mapping[Code, str]] = {
    "task_not_found": "No task of yours has this id. If it was just run, its provenance may not be recorded yet.",
    "task_not_finished": "The task still runs: rate it when it has finished.",
    "coordinator_task": "This is a coordinator's task. Rate the specialist's own task: see the answer's targets.",
    "explicit_target_required": "Several agents have a task of yours under this id: name one of them in `agent`.",
    "destination_not_approved": "The agent is not approved to receive feedback now: its operator has to approve it.",
    "feedback_not_supported": "The agent has opted in to no feedback protocol.",
    "destination_cannot_act_for_owner": "The relay has no credential that acts as the identity which ran this task.",
    "submission_not_found": "No submission of yours has this id.",
}


def refuse(code: str, *, targets: Sequence[object] | None = None) -> Refusal:
    """The refusal for a verdict of `relay.feedback.model.judge`."""
    extra = {} if targets is None else {"targets": msgspec.to_builtins(targets)}
    for known, detail in DETAILS.items():
        if known == code:
            return Refusal(known, detail, extra=extra)
    raise ValueError(f"{code} is no refusal")


def taken(existing: Submission) -> Refusal:
    if existing.erased_at is not None:
        return erased()
    return Refusal(
        "already_submitted",
        "This task has been rated, and ratings are never edited. The one that stands is in `existing`.",
        extra={"existing": msgspec.to_builtins(shown(existing))},
    )


def reused() -> Refusal:
    return Refusal(
        "uuid_reused",
        "This id stands for a submission with other content, which is not changed. Use a new UUID for a new rating.",
    )


def erased() -> Refusal:
    return Refusal("submission_erased", "The submission was erased. Its id and its task cannot be used again.")
