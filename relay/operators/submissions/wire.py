"""A tenant's submissions at the edge."""

from typing import Annotated

from msgspec import Meta, Struct

from registry.model import RanAs
from registry.protocols.contract import Rating
from relay.clock import rfc3339
from relay.delivery.model import Cause, End, Evidence, State
from relay.http.identifiers import Moment
from relay.http.parameters import DEFAULT_LIMIT, CursorText, Limit
from relay.operators import instants
from relay.operators.instants import InstantText
from relay.operators.submissions.acting import Acted
from relay.operators.submissions.filter import SubmissionFilter
from relay.operators.submissions.model import Attempt, ObstacleKind, Outcome, Provenance, Story, Submission
from relay.provenance.model import Role, Status

FilterText = Annotated[str, Meta(min_length=1, max_length=256)]
SearchText = Annotated[
    str, Meta(min_length=1, max_length=200, description="Stands in the comment, literally, in any case.")
]
OwnerKey = Annotated[str, Meta(description="An owner by the opaque key under which operators know them.")]
RatedId = Annotated[str, Meta(description="The submission's UUID.", extra_json_schema={"format": "uuid"})]


class FilterQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which submissions; what all of the parameters say."""

    state: State | None = None
    agent: FilterText | None = None
    rating: Rating | None = None
    owner: FilterText | None = None
    client: FilterText | None = None
    since: InstantText | None = None
    until: InstantText | None = None
    q: SearchText | None = None
    evidence: Evidence | None = None

    def wanted(self) -> SubmissionFilter:
        """Raises `Refusal` for a time without a zone."""
        return SubmissionFilter(
            state=self.state,
            agent=self.agent,
            rating=self.rating,
            owner=self.owner,
            client=self.client,
            since=instants.from_query("since", self.since),
            until=instants.from_query("until", self.until),
            q=self.q,
            evidence=self.evidence,
        )


class SubmissionsQuery(FilterQuery, frozen=True):
    """A page of those that are meant."""

    limit: Limit = DEFAULT_LIMIT
    cursor: CursorText | None = None


class LoggedAttempt(Struct, frozen=True, rename="camel"):
    """One try. ``excerpt`` is the redacted beginning of what came back; ``ambiguous``: it may have been received."""

    number: int
    cause: Cause
    registration_version: int | None
    at: Moment
    duration_ms: int | None
    phase: str | None
    outcome: End
    reason: str | None
    status: int | None
    ambiguous: bool
    excerpt: str | None


class TenantSubmission(Struct, frozen=True, rename="camel"):
    """A submission as the operators of its tenant see it: its owner by key, never by name."""

    owner: str
    client: str
    id: str
    agent: str
    task_id: str
    ran_as: RanAs
    rating: Rating | None
    comment: str | None
    created_at: Moment
    erased_at: Moment | None
    state: State
    state_since: Moment
    next_attempt_at: Moment | None
    saved_at: Moment | None
    attempt_count: int
    abandoned_by: str | None
    abandoned_why: str | None
    evidence: Evidence
    evidence_at: Moment | None
    resolution: str | None
    last_attempt: LoggedAttempt | None


class TenantSubmissionPage(Struct, frozen=True, rename="camel"):
    """Newest first. ``total`` counts all submissions under the filter, on whichever page."""

    items: list[TenantSubmission]
    next: str | None
    total: int


class UsedEvidence(Struct, frozen=True):
    """Something that the run used or made."""

    kind: str
    id: str


class RatedTask(Struct, frozen=True, rename="camel"):
    """The task that was rated, as recorded."""

    recorded_by: str
    conversation_id: str
    answer_id: str
    role: Role
    status: Status
    ran_as: RanAs
    registration_version: int
    parent_task_id: str | None
    run_id: str | None
    created_at: Moment
    finished_at: Moment | None
    evidence: list[UsedEvidence]


class ObstacleShown(Struct, frozen=True):
    """What keeps it from being sent at once, and until when if that is known."""

    kind: ObstacleKind
    until: Moment | None


class SubmissionStory(Struct, frozen=True, rename="camel"):
    """One submission with its task, its newest attempts (oldest of them first), and what stands in its way."""

    submission: TenantSubmission
    provenance: RatedTask | None
    attempts: list[LoggedAttempt]
    obstacles: list[ObstacleShown]


class ActionDone(Struct, frozen=True):
    """What was really done, the state before and after, and the submission as it stands."""

    outcome: Outcome
    before: State
    after: State
    story: SubmissionStory


def shown(submission: Submission) -> TenantSubmission:
    return TenantSubmission(
        owner=submission.owner,
        client=submission.client,
        id=submission.id,
        agent=submission.agent,
        task_id=submission.task,
        ran_as=submission.ran_as,
        rating=submission.rating,
        comment=submission.comment,
        created_at=rfc3339(submission.created_at),
        erased_at=moment(submission.erased_at),
        state=submission.state,
        state_since=rfc3339(submission.state_since),
        next_attempt_at=moment(submission.next_attempt_at),
        saved_at=moment(submission.saved_at),
        attempt_count=submission.attempt_count,
        abandoned_by=submission.abandoned_by,
        abandoned_why=submission.abandoned_why,
        evidence=submission.evidence,
        evidence_at=moment(submission.evidence_at),
        resolution=submission.resolution,
        last_attempt=None if submission.last_attempt is None else _attempt(submission.last_attempt),
    )


def told(story: Story) -> SubmissionStory:
    return SubmissionStory(
        submission=shown(story.submission),
        provenance=None if story.provenance is None else _task(story.provenance),
        attempts=[_attempt(attempt) for attempt in story.attempts],
        obstacles=[ObstacleShown(each.kind, moment(each.until)) for each in story.obstacles],
    )


def done(acted: Acted, story: Story) -> ActionDone:
    return ActionDone(acted.outcome, acted.before, acted.after, told(story))


def moment(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else rfc3339(milliseconds)


def _attempt(attempt: Attempt) -> LoggedAttempt:
    return LoggedAttempt(
        number=attempt.number,
        cause=attempt.cause,
        registration_version=attempt.registration_version,
        at=rfc3339(attempt.at),
        duration_ms=attempt.duration_ms,
        phase=attempt.phase,
        outcome=attempt.outcome,
        reason=attempt.reason,
        status=attempt.status,
        ambiguous=attempt.ambiguous,
        excerpt=attempt.excerpt,
    )


def _task(task: Provenance) -> RatedTask:
    return RatedTask(
        recorded_by=task.recorded_by,
        conversation_id=task.conversation,
        answer_id=task.answer,
        role=task.role,
        status=task.status,
        ran_as=task.ran_as,
        registration_version=task.registration_version,
        parent_task_id=task.parent,
        run_id=task.run,
        created_at=rfc3339(task.created_at),
        finished_at=moment(task.finished_at),
        evidence=[UsedEvidence(item.kind, item.id) for item in task.evidence],
    )
