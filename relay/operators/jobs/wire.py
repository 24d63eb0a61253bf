"""Jobs at the edge."""

from typing import Annotated

from msgspec import Meta, Struct

from registry.protocols.contract import Rating
from relay.clock import rfc3339
from relay.delivery.model import Evidence, State
from relay.errors import FieldProblem, Refusal
from relay.http.identifiers import Moment
from relay.http.parameters import Page
from relay.operators import instants
from relay.operators.agents.wire import Said
from relay.operators.instants import InstantText
from relay.operators.jobs.model import Forecast, Job, JobState
from relay.operators.submissions.filter import SubmissionFilter
from relay.operators.submissions.model import Action
from relay.operators.submissions.wire import FilterText, SearchText, moment

JobKey = Annotated[str, Meta(description="The id of a job.", extra_json_schema={"format": "uuid"})]


class JobFilter(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which of the tenant's submissions, as in their list; without members all of them."""

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
            since=instants.from_body("/filter/since", self.since),
            until=instants.from_body("/filter/until", self.until),
            q=self.q,
            evidence=self.evidence,
        )


class JobBody(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What to do to which submissions. ``why`` may be left out of a dry run, which changes nothing."""

    kind: Action
    filter: JobFilter
    why: Said | None = None
    dry_run: bool = False

    def reason(self) -> str:
        """Raises `Refusal` where there is none."""
        if self.why is None:
            detail = "Say why, for the audit log."
            raise Refusal("invalid_field", detail, errors=(FieldProblem("/why", detail),))
        return self.why


class JobsQuery(Page, frozen=True):
    """Which jobs."""

    state: JobState | None = None


class ForecastShown(Struct, frozen=True, rename="camel"):
    """What would be found and done now: how many in which state, and how many with which outcome."""

    total: int
    by_state: dict[str, int]
    would: dict[str, int]


class JobShown(Struct, frozen=True, rename="camel"):
    """A job. ``total`` matched when it was asked for; ``examined`` is how many it has looked at so far, of those that
    match when it comes to them, and ``results`` what it did to how many.
    """

    id: str
    kind: Action
    filter: JobFilter
    by: str
    why: str | None
    state: JobState
    total: int
    examined: int
    results: dict[str, int]
    problem: str | None
    created_at: Moment
    updated_at: Moment
    finished_at: Moment | None


class JobsPage(Struct, frozen=True):
    """Newest first. ``total`` counts all jobs under the filter."""

    items: list[JobShown]
    next: str | None
    total: int


def forecast(found: Forecast) -> ForecastShown:
    return ForecastShown(found.total, dict(found.by_state), {str(name): count for name, count in found.would.items()})


def shown(job: Job) -> JobShown:
    wanted = job.filter
    return JobShown(
        id=job.id,
        kind=job.kind,
        filter=JobFilter(
            state=wanted.state,
            agent=wanted.agent,
            rating=wanted.rating,
            owner=wanted.owner,
            client=wanted.client,
            since=moment(wanted.since),
            until=moment(wanted.until),
            q=wanted.q,
            evidence=wanted.evidence,
        ),
        by=job.actor,
        why=job.why,
        state=job.state,
        total=job.total,
        examined=job.examined,
        results={str(name): count for name, count in job.results.items()},
        problem=job.problem,
        created_at=rfc3339(job.created_at),
        updated_at=rfc3339(job.updated_at),
        finished_at=moment(job.finished_at),
    )
