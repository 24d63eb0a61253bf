"""What `relay operators watch` shows on a terminal."""

from datetime import tzinfo

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from relay.cli.operators.looks import WAITING, Look
from relay.cli.operators.printing import plain, told, when


def screen(seen: Look | None, problem: str | None, zone: tzinfo) -> RenderableType:
    """The newest look, and why there is no newer one."""
    parts: list[RenderableType] = []
    if problem is not None:
        parts.append(Text(f"not up to date: {plain(problem)}", style="bold red"))
    if seen is not None:
        title = f"{when(seen.at, zone)} · q ends"
        parts += [
            Panel(_summary(seen, zone), title=title, title_align="left"),
            Panel(_agents(seen, zone), title="agents", title_align="left"),
            *([Panel(_jobs(seen), title="running jobs", title_align="left")] if seen.jobs else []),
            Panel(_newest(seen, zone), title="newest submissions", title_align="left"),
        ]
    return Group(*parts)


def _summary(seen: Look, zone: tzinfo) -> Text:
    share = seen.day["upShare"]
    up = f", thumbs up {share['share']:.0%}" if share else ""
    oldest = f" (oldest since {when(seen.oldest, zone)})" if seen.oldest else ""
    return Text(f"waiting: {told(seen.backlog)}{oldest}\nlast 24 hours: {told(seen.day['states'])}{up}")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, expand=False)
    for column in columns:
        table.add_column(column, overflow="ellipsis", no_wrap=True)
    return table


def _agents(seen: Look, zone: tzinfo) -> Table:
    table = _table("agent", "state", "breaker", "pending", "sending", "held", "needs owner", "oldest since")
    for agent in seen.agents:
        breaker, backlog = agent["breaker"]["state"], agent["backlog"]
        table.add_row(
            Text(plain(agent["agent"])),
            Text(agent["state"] if agent["hold"] is None else f"{agent['state']}, you hold it"),
            Text(breaker, style="" if breaker == "closed" else "bold red"),
            *(Text(str(backlog[name])) for name in WAITING),
            Text(when(backlog["oldestSince"], zone)),
        )
    return table


def _jobs(seen: Look) -> Table:
    table = _table("job", "does", "examined", "total")
    for job in seen.jobs:
        table.add_row(*map(Text, (job["id"], job["kind"], str(job["examined"]), str(job["total"]))))
    return table


def _newest(seen: Look, zone: tzinfo) -> Table:
    table = _table("created", "state", "rating", "agent", "task", "id")
    for one in seen.newest:
        cells = (
            when(one["createdAt"], zone),
            one["state"],
            one["rating"] or "",
            one["agent"],
            one["taskId"],
            one["id"],
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table
