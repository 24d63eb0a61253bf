"""Figures at the edge."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from relay.delivery.model import State
from relay.operators.analytics.model import Breakdown, By, Figures, Share
from relay.operators.submissions.wire import FilterQuery

Scope = Literal["own", "all"]
ZoneName = Annotated[
    str,
    Meta(min_length=1, max_length=64, description="Whose days are meant: an IANA name, such as Europe/Berlin."),
]
Proportion = Annotated[float, Meta(ge=0, le=1)]


class AnalyticsQuery(FilterQuery, frozen=True):
    """What is counted, and by what. ``scope=all`` asks for an operator."""

    scope: Scope = "own"
    by: By | None = None
    zone: ZoneName = "UTC"


class UpShare(Struct, frozen=True):
    """The share of thumbs up, with its 95 % interval by Wilson."""

    share: Proportion
    low: Proportion
    high: Proportion


class TimeToSaved(Struct, frozen=True, rename="camel"):
    """From creation to saved, in milliseconds, over what is saved: percentiles by nearest rank."""

    p50_ms: int
    p95_ms: int
    p99_ms: int


class FailureCount(Struct, frozen=True):
    """How the newest attempt failed, and of how many that are not saved."""

    reason: str
    count: int


class SubmissionFigures(Struct, frozen=True, rename="camel"):
    """What is said of a set of submissions. ``erased`` are those whose rating is gone: neither up nor down."""

    count: int
    up: int
    down: int
    erased: int
    up_share: UpShare | None
    states: dict[State, int]
    time_to_saved: TimeToSaved | None
    failures: list[FailureCount]


class FiguresOf(Struct, frozen=True):
    """A part: the submissions of one agent, day, state or client. A day is a date such as 2026-03-29."""

    key: str
    figures: SubmissionFigures


class AnalyticsAnswer(Struct, frozen=True):
    """The whole and, if asked for, its parts in the order of their keys; those with nothing in them are left out."""

    scope: Scope
    by: By | None
    zone: str
    total: SubmissionFigures
    items: list[FiguresOf]


def shown(query: AnalyticsQuery, breakdown: Breakdown) -> AnalyticsAnswer:
    return AnalyticsAnswer(
        scope=query.scope,
        by=query.by,
        zone=query.zone,
        total=_figures(breakdown.total),
        items=[FiguresOf(key, _figures(figures)) for key, figures in breakdown.parts],
    )


def _figures(figures: Figures) -> SubmissionFigures:
    times = figures.percentiles
    return SubmissionFigures(
        count=figures.count,
        up=figures.ups,
        down=figures.downs,
        erased=figures.erased,
        up_share=None if figures.up_share is None else _share(figures.up_share),
        states=dict(figures.states),
        time_to_saved=TimeToSaved(times[50], times[95], times[99]) if times else None,
        failures=[FailureCount(reason, count) for reason, count in figures.reasons.items()],
    )


def _share(share: Share) -> UpShare:
    return UpShare(share.share, share.low, share.high)
