"""Odd tasks at the edge."""

from msgspec import Struct

from relay.clock import rfc3339
from relay.http.identifiers import Moment
from relay.http.parameters import Page
from relay.operators.submissions.wire import FilterText
from relay.operators.tasks.store import Contested, Running
from relay.provenance.model import Role, Status


class TasksQuery(Page, frozen=True):
    """Of which agent."""

    agent: FilterText | None = None


class ClaimantShown(Struct, frozen=True, rename="camel"):
    """One owner under whom the task is recorded. ``submission`` is the rating that they gave it."""

    owner: str
    client: str
    recorded_by: str
    role: Role
    status: Status
    created_at: Moment
    submission: str | None


class ContestedTask(Struct, frozen=True, rename="camel"):
    """A task that is recorded under several owners of the tenant."""

    agent: str
    task_id: str
    claimants: list[ClaimantShown]


class ContestedPage(Struct, frozen=True):
    """The oldest first. ``total`` counts all of them under the filter."""

    items: list[ContestedTask]
    next: str | None
    total: int


class LongRunningTask(Struct, frozen=True, rename="camel"):
    """A task that nobody has recorded the end of."""

    agent: str
    task_id: str
    owner: str
    client: str
    recorded_by: str
    role: Role
    conversation_id: str
    answer_id: str
    run_id: str | None
    created_at: Moment
    running_seconds: int


class LongRunningPage(Struct, frozen=True, rename="camel"):
    """The oldest first. ``total`` counts all of them under the filter."""

    items: list[LongRunningTask]
    next: str | None
    total: int


def contested(task: Contested) -> ContestedTask:
    claimants = [
        ClaimantShown(
            owner=one.owner,
            client=one.client,
            recorded_by=one.recorded_by,
            role=one.role,
            status=one.status,
            created_at=rfc3339(one.created_at),
            submission=one.submission,
        )
        for one in task.claimants
    ]
    return ContestedTask(task.agent, task.task, claimants)


def running(task: Running) -> LongRunningTask:
    return LongRunningTask(
        agent=task.agent,
        task_id=task.task,
        owner=task.owner,
        client=task.client,
        recorded_by=task.recorded_by,
        role=task.role,
        conversation_id=task.conversation,
        answer_id=task.answer,
        run_id=task.run,
        created_at=rfc3339(task.created_at),
        running_seconds=task.age_ms // 1000,
    )
