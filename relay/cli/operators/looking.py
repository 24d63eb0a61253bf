"""``relay operators tasks``, ``audit`` and ``analytics``: what operators look at, and never change."""

import json
from typing import TYPE_CHECKING, Any, Final

import click

from relay.cli.operators import lists
from relay.cli.operators.options import filter_of, filtered, json_option, lines_option, paged, spanning
from relay.cli.operators.printing import print_document, print_rows, told, when

if TYPE_CHECKING:
    from relay.cli.operators.terminal import Terminal

AUDIT: Final = ("at", "who", "did", "to", "before", "after", "why")


@click.group()
def tasks() -> None:
    """Look at tasks that are recorded in an odd way."""


@tasks.command()
@click.option("--agent", help="Of this agent.")
@paged
@lines_option
@click.pass_obj
def contested(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """List tasks that are recorded under several owners: one of them was recorded wrongly. Oldest first."""

    def row(task: dict[str, Any]) -> tuple[object, ...]:
        claimants = "; ".join(
            f"{one['owner']} ({one['role']}, {one['status']}, by {one['recordedBy']}"
            + (f", rated {one['submission']})" if one["submission"] else ")")
            for one in task["claimants"]
        )
        return task["agent"], task["taskId"], claimants

    segments = ("api", "operator", "contested-tasks")
    lists.show(terminal, segments, said, {"agent": said["agent"]}, ("agent", "task", "claimed by"), row)


@tasks.command("long-running")
@click.option("--agent", help="Of this agent.")
@paged
@lines_option
@click.pass_obj
def long_running(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401
    """List tasks that are said to run for longer than the deployment expects. Oldest first."""
    zone = terminal.zone

    def row(task: dict[str, Any]) -> tuple[object, ...]:
        hours = f"{task['runningSeconds'] / 3600:,.1f} h"
        names = (
            task[name] for name in ("agent", "taskId", "role", "owner", "recordedBy", "conversationId", "answerId")
        )
        return (when(task["createdAt"], zone), hours, *names)

    columns = ("since", "for", "agent", "task", "role", "owner", "recorded by", "conversation", "answer")
    lists.show(terminal, ("api", "operator", "long-running-tasks"), said, {"agent": said["agent"]}, columns, row)


@click.group()
def audit() -> None:
    """Look at who did what, and why."""


@audit.command("list")
@click.option("--actor", metavar="WHO", help="By them: an operator's key, or cli:NAME.")
@click.option("--action", help="This was done, such as submission.retry or agent.hold.")
@click.option("--target", help="To this, such as OWNER/ID of a submission, an agent's id, or job/ID.")
@spanning
@paged
@lines_option
@click.pass_obj
def list_entries(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401
    """List what was done, newest first: your tenant's, and the deployment's where your registry:admin counts."""
    zone = terminal.zone

    def row(entry: dict[str, Any]) -> tuple[object, ...]:
        changed = (_short(entry["before"]), _short(entry["after"]))
        return (when(entry["at"], zone), entry["actor"], entry["action"], entry["target"], *changed, entry["why"])

    query = {name: said[name] for name in ("actor", "action", "target", "since", "until")}
    lists.show(terminal, ("api", "operator", "audit"), said, query, AUDIT, row)


def _short(members: dict[str, Any] | None) -> str:
    if not members:
        return ""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, separators=(',', ':'))}"
        for name, value in members.items()
    )


@click.command()
@click.option("--by", type=click.Choice(("agent", "day", "state", "client")), help="Its parts, too. Days are --zone's.")
@filtered
@json_option
@click.pass_obj
def analytics(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401
    """Show how ratings fare.

    Counts, the share of thumbs up, the time until they were saved, and why they are not. The share has a 95 %
    interval (Wilson) behind it. The counts are those of `submissions list` under the same filter.
    """
    query = {**filter_of(said), "scope": "all", "by": said["by"], "zone": terminal.zone_name}
    found = terminal.ask(lambda desk: desk.get("api", "analytics", query=query))
    if said["as_json"]:
        print_document(found)
        return
    named = [(item["key"], item["figures"]) for item in found["items"]]
    columns = (said["by"] or "", "count", "up", "down", "erased", "up share", "p50", "p95", "p99", "states", "failures")
    print_rows(columns, [_figures(key, figures) for key, figures in (*named, ("all", found["total"]))])


def _figures(key: str, figures: dict[str, Any]) -> tuple[object, ...]:
    share, times = figures["upShare"], figures["timeToSaved"]
    shown = f"{share['share']:.1%} ({share['low']:.1%} to {share['high']:.1%})" if share else ""
    spans = [_span(times[name]) for name in ("p50Ms", "p95Ms", "p99Ms")] if times else ["", "", ""]
    failures = told({failure["reason"]: failure["count"] for failure in figures["failures"]})
    counts = (figures[name] for name in ("count", "up", "down", "erased"))
    return (key, *counts, shown, *spans, told(figures["states"]), failures if figures["failures"] else "")


def _span(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.0f} s"  # noqa: PLR2004
