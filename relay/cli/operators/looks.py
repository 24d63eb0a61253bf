"""One look at the relay, for `relay operators watch`: what it fetches, and how it reads as lines."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, Final

from relay.cli.operators.printing import plain, told, when
from relay.clock import SystemClock, rfc3339

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk

DAY_MS: Final = 86_400_000
NEWEST: Final = 10
WAITING: Final = ("pending", "sending", "held", "needsOwner")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was seen at a time, as the API has it. ``day`` are the figures of what came in during the last 24 hours."""

    at: str
    agents: list[Json]
    day: Json
    newest: list[Json]
    jobs: list[Json]

    @property
    def backlog(self) -> dict[str, int]:
        """What waits, of all agents."""
        return {name: sum(agent["backlog"][name] for agent in self.agents) for name in WAITING}

    @property
    def oldest(self) -> str | None:
        return min(filter(None, (agent["backlog"]["oldestSince"] for agent in self.agents)), default=None)

    @property
    def broken(self) -> list[str]:
        """The agents whose breaker is not closed."""
        return [agent["agent"] for agent in self.agents if agent["breaker"]["state"] != "closed"]

    def document(self) -> Json:
        day = self.day
        members = {"at": self.at, "backlog": self.backlog, "oldestSince": self.oldest, "breakersOpen": self.broken}
        return {**members, "lastDay": day, "agents": self.agents, "jobs": self.jobs, "newest": self.newest}


async def look(desk: "Desk") -> Look:
    """Look once."""
    now = round(SystemClock().unix() * 1000)
    agents = [agent async for page in desk.pages("api", "operator", "agents", most=None) for agent in page.items]
    day = await desk.get("api", "analytics", query={"scope": "all", "since": rfc3339(now - DAY_MS)})
    newest = await desk.get("api", "operator", "submissions", query={"limit": str(NEWEST)})
    jobs = await desk.get("api", "operator", "jobs", query={"state": "running"})
    return Look(at=rfc3339(now), agents=agents, day=day["total"], newest=newest["items"], jobs=jobs["items"])


def line(seen: Look, zone: tzinfo) -> str:
    """A look on one line."""
    oldest = f" (oldest since {when(seen.oldest, zone)})" if seen.oldest else ""
    broken = f"; breakers not closed: {', '.join(seen.broken)}" if seen.broken else ""
    jobs = f"; running jobs: {len(seen.jobs)}" if seen.jobs else ""
    return (
        f"{when(seen.at, zone)}  waiting: {told(seen.backlog)}{oldest}; 24 h: {told(seen.day['states'])}{broken}{jobs}"
    )


def changes(before: Look | None, now: Look, zone: tzinfo) -> Iterator[str]:
    """Of the newest submissions those that were not there, or in another state; the first time, none."""
    if before is None:
        return
    known = {(one["owner"], one["id"]): one["state"] for one in before.newest}
    for one in reversed(now.newest):
        was = known.get((one["owner"], one["id"]))
        if was != one["state"]:
            moved = f"{was} → {one['state']}" if was else f"new, {one['state']}"
            yield plain(f"{when(one['stateSince'], zone)}  {one['agent']}  {one['taskId']}  {moved}  {one['id']}")
