"""``/console``: how the relay fares for the operator's tenant."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from aiohttp import web
from msgspec import Struct

from relay.operators.agents.routes import VIEWS
from relay.operators.agents.views import View, Wanted
from relay.operators.analytics.model import Breakdown
from relay.operators.analytics.pace import MINUTE_MS, Pace
from relay.operators.analytics.routes import ANALYTICS
from relay.operators.submissions.filter import SubmissionFilter, condition
from relay.web.console.pages import plots
from relay.web.console.pages.agents import WAITING
from relay.web.console.pages.asked import asked
from relay.web.console.shell import FRAGMENT, Pages, render
from relay.web.console.visits import UTC_ZONE, Visit
from relay.web.console.wording import words

MINUTES: Final = 60
DAYS: Final[Mapping[str, int]] = {"day": 1, "week": 7, "month": 30}
_DAY_MS: Final = 86_400_000
NOW: Final = "overview-now"

pages = Pages()


class OverviewQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """How far back the ratings are looked at."""

    since: Literal["day", "week", "month"] = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What waits for one agent. Times in milliseconds."""

    agent: str
    totals: Mapping[str, int]
    oldest: int | None
    age: int | None

    @property
    def count(self) -> int:
        return sum(self.totals.values())


@pages.get("", name="console_overview", nav="Overview")
async def overview(request: web.Request, visit: Visit) -> web.StreamResponse:
    """What waits and what is saved, now; then how ratings fared, agent by agent, and why they are not saved."""
    wanted = asked(request, OverviewQuery, visit.zone)
    tenant, analytics = visit.principal.tenant, request.app[ANALYTICS]
    views, pace = await asyncio.gather(
        request.app[VIEWS].all(Wanted(), tenant=tenant), analytics.pace(tenant, minutes=MINUTES)
    )
    values = await asyncio.to_thread(_now, views, pace, visit.zone)
    if request.headers.get(FRAGMENT) != NOW:
        # What has gone by does not change from one second to the next: it is counted when the page is opened.
        since = pace.now - DAYS[wanted.query.since] * _DAY_MS
        chosen = condition(tenant, SubmissionFilter(since=since))
        figures = await analytics.figures(chosen, "agent", UTC_ZONE)
        values |= await asyncio.to_thread(_ratings, figures)
        values |= {"since": wanted.query.since, "spans": list(DAYS)}
    return render(request, visit, "overview.html", values)


def _now(views: list[View], pace: Pace, zone: ZoneInfo) -> dict[str, Any]:
    """The numbers and plots that are kept up to date."""
    rows = [_waiting(view, pace.now) for view in views]
    rows = [row for row in rows if row.count]
    drawn = sorted(rows, key=lambda row: (-row.count, row.agent))[: plots.MOST]
    agents = [row.agent for row in drawn]
    minutes = [pace.since + MINUTE_MS * number for number in range(len(pace.saved))]
    return {
        "waiting": WAITING,
        "rows": rows,
        "backlog": sum(row.count for row in rows),
        "oldest": max((row.age or 0 for row in rows), default=None),
        "agents": len(views),
        "open": sum(view.health.breaker.state != "closed" for view in views),
        "pace": pace,
        "minutes": [(at, count) for at, count in zip(minutes, pace.saved, strict=True) if count][::-1],
        "backlog_plot": plots.stacked(
            "Backlog by agent", agents, {words(state): [row.totals.get(state, 0) for row in drawn] for state in WAITING}
        ),
        "oldest_plot": plots.durations("Oldest waiting by agent", agents, [row.age or 0 for row in drawn]),
        "pace_plot": plots.columns("Saved per minute", [_clock(at, zone) for at in minutes], pace.saved, every=15),
    }


def _ratings(figures: Breakdown) -> dict[str, Any]:
    """The share of thumbs up by agent, and why ratings are not saved."""
    rated = [(agent, part, part.up_share) for agent, part in figures.parts]
    most = sorted(rated, key=lambda each: (-each[1].count, each[0]))[: plots.MOST]
    shares = [(agent, share) for agent, _, share in most if share is not None]
    reasons = list(figures.total.reasons.items())
    return {
        "figures": figures.total,
        "by_agent": rated,
        "reasons": reasons,
        "shares_plot": plots.shares(
            "Share of thumbs up by agent", [agent for agent, _ in shares], [share for _, share in shares]
        ),
        "reasons_plot": plots.counts(
            "Failures by reason", [words(name) for name, _ in reasons], [count for _, count in reasons]
        ),
    }


def _waiting(view: View, now: int) -> Waiting:
    backlog = view.health.backlog
    oldest = backlog.oldest
    age = None if oldest is None else max(0, now - oldest)
    totals: Mapping[str, int] = {str(state): total for state, total in backlog.totals.items()}
    return Waiting(agent=view.agent.id, totals=totals, oldest=oldest, age=age)


def _clock(at: int, zone: ZoneInfo) -> str:
    return f"{datetime.fromtimestamp(at / 1000, UTC).astimezone(zone):%H:%M}"
