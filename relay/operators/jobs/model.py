"""A job and how far it has come. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NewType

from relay.operators.submissions.filter import SubmissionFilter
from relay.operators.submissions.model import Action, Outcome

JobId = NewType("JobId", str)

JobState = Literal["waiting", "running", "finished", "canceled", "failed"]
OPEN: frozenset[JobState] = frozenset({"waiting", "running"})

Results = Mapping[Outcome, int]
"""How many submissions an action did what to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Times in milliseconds. ``total`` is how many matched when it was asked for, ``examined`` how many it has looked
    at: those that matched when it came to them. Between the two, submissions go on changing.

    It goes through submissions by number, from behind ``position`` up to ``upto``: what comes in later is not touched.
    """

    seq: int
    id: JobId
    tenant: str
    kind: Action
    filter: SubmissionFilter
    actor: str
    why: str | None
    state: JobState
    total: int
    examined: int
    results: Results
    position: int
    upto: int
    problem: str | None
    created_at: int
    updated_at: int
    finished_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a job would find and do if it were done at once: how many by state, and how many by outcome."""

    total: int
    by_state: Mapping[str, int]
    would: Results
