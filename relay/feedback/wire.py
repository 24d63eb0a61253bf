"""Feedback at the edge."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from registry.model import AgentId, Obstacle
from registry.protocols.contract import Rating
from registry.protocols.roblox_v1 import COMMENT_MAX_UNITS, code_units
from relay.clock import rfc3339
from relay.delivery.model import Cause, End, Evidence, State
from relay.errors import FieldProblem, Refusal
from relay.feedback.model import LastAttempt, Offer, Submission
from relay.http.identifiers import Identifier, Moment
from relay.http.parameters import Page
from relay.provenance.model import Status

UUID_PATTERN = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$(?!\n)"


SubmissionId = Annotated[str, Meta(description="The submission's UUID.", extra_json_schema={"format": "uuid"})]
"""A submission as a path names it; anything that is no UUID is simply not there."""


class FeedbackBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A rating of one specialist task. ``comment`` has at most 4000 UTF-16 code units."""

    id: Annotated[str, Meta(pattern=UUID_PATTERN, min_length=36, max_length=36)]
    task_id: Identifier
    rating: Rating
    # A character has at least one code unit: a longer text is refused by its schema already.
    comment: Annotated[str, Meta(max_length=COMMENT_MAX_UNITS)] | None = None
    agent: Identifier | None = None

    def offer(self) -> Offer:
        """The rating as it is stored: the UUID in lower case, an empty comment is none."""
        if self.comment is not None and code_units(self.comment) > COMMENT_MAX_UNITS:
            raise _at("/comment", f"A comment may have {COMMENT_MAX_UNITS} UTF-16 code units; this one has more.")
        return Offer(
            id=self.id.lower(),
            task=self.task_id,
            rating=self.rating,
            comment=self.comment or None,
            agent=None if self.agent is None else AgentId(self.agent),
        )


def _at(pointer: str, detail: str) -> Refusal:
    return Refusal("invalid_field", detail, errors=(FieldProblem(pointer, detail),))


FilterText = Annotated[str, Meta(min_length=1, max_length=256)]


class FeedbackQuery(Page, frozen=True, rename="camel"):
    """Which of the own submissions to list."""

    state: State | None = None
    agent: FilterText | None = None
    task_id: FilterText | None = None


Reason = Obstacle | Literal["already_submitted", "submission_erased", "task_not_finished"]
"""Why a task cannot be rated: the code with which a rating would be refused."""


class AttemptShown(Struct, frozen=True, rename="camel"):
    """The newest attempt. ``ambiguous``: the specialist may have received it although it did not acknowledge."""

    number: int
    cause: Cause
    at: Moment
    outcome: End
    reason: str | None
    status: int | None
    ambiguous: bool


class SubmissionShown(Struct, frozen=True, rename="camel"):
    """A submission as its owner sees it.

    ``evidence`` is what reading the specialist's list back has found, at ``evidenceAt``. ``resolution`` is what the
    specialist's operators say became of the rating. ``runId`` is the run that it is about, if that was recorded.
    """

    id: str
    saved: bool
    state: State
    agent: str
    task_id: str
    rating: Rating | None
    comment: str | None
    created_at: Moment
    saved_at: Moment | None
    next_attempt_at: Moment | None
    last_attempt: AttemptShown | None
    evidence: Evidence
    evidence_at: Moment | None
    resolution: str | None
    run_id: str | None
    erased_at: Moment | UnsetType = UNSET


class TargetShown(Struct, frozen=True, rename="camel"):
    """One specialist that contributed to an answer. ``reason`` says why it cannot be rated now."""

    agent: str
    agent_name: str
    task_id: str
    status: Status
    rateable: bool
    reason: Reason | None
    submission: SubmissionShown | None


class AnswerTargets(Struct, frozen=True, rename="camel"):
    """The specialists behind an answer. With several, a rating has to name one.

    ``owner_key`` is the caller's own public name: what a page keeps of a rating that is not sent yet belongs to it, and
    goes out under no other sign-in. ``retention_days``: for how long the relay keeps a rating and its comment; None:
    for ever.
    """

    answer_id: str
    owner_key: str
    retention_days: int | None
    explicit_target_required: bool
    targets: list[TargetShown]


class SubmissionPage(Struct, frozen=True, rename="camel"):
    """Own submissions, newest first."""

    items: list[SubmissionShown]
    next: str | None


class TargetsPage(Struct, frozen=True, rename="camel"):
    """The answers of a conversation, oldest first, each with its targets."""

    items: list[AnswerTargets]
    next: str | None


def shown(submission: Submission) -> SubmissionShown:
    return SubmissionShown(
        id=submission.id,
        saved=submission.state == "saved",
        state=submission.state,
        agent=submission.agent,
        task_id=submission.task,
        rating=submission.rating,
        comment=submission.comment,
        created_at=rfc3339(submission.created_at),
        saved_at=_moment(submission.saved_at),
        next_attempt_at=_moment(submission.next_attempt_at),
        last_attempt=None if submission.last_attempt is None else _attempt(submission.last_attempt),
        evidence=submission.evidence,
        evidence_at=_moment(submission.evidence_at),
        resolution=submission.resolution,
        run_id=submission.run,
        erased_at=UNSET if submission.erased_at is None else rfc3339(submission.erased_at),
    )


def _attempt(attempt: LastAttempt) -> AttemptShown:
    return AttemptShown(
        number=attempt.number,
        cause=attempt.cause,
        at=rfc3339(attempt.at),
        outcome=attempt.outcome,
        reason=attempt.reason,
        status=attempt.status,
        ambiguous=attempt.ambiguous,
    )


def _moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else rfc3339(milliseconds)
