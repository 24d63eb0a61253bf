"""``relay operators submissions``"""

from collections.abc import Mapping
from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from relay.cli.operators import lists
from relay.cli.operators.bulk import bulk
from relay.cli.operators.exits import NOT_APPLICABLE
from relay.cli.operators.options import filter_of, filtered, json_option, lines_option, paged, why_option
from relay.cli.operators.printing import plain, print_document, print_facts, print_rows, when
from relay.cli.running import Failure

if TYPE_CHECKING:
    from relay.cli.operators.desk import Desk
    from relay.cli.operators.terminal import Terminal

REOPENED: Final = ("rejected", "exhausted", "abandoned")
"""The states that a retry begins a new schedule from."""

COLUMNS: Final = ("created", "agent", "task", "rating", "state", "attempts", "last", "next", "owner", "id")


@click.group()
def submissions() -> None:
    """Look at ratings, retry or abandon them.

    A submission has two names: its owner's key and its UUID. Lists show both.
    """


@submissions.command("list")
@filtered
@paged
@lines_option
@click.pass_obj
def list_submissions(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
    """List submissions, newest first."""
    row = partial(_row, terminal.zone)
    lists.show(terminal, ("api", "operator", "submissions"), said, filter_of(said), COLUMNS, row)


@submissions.command()
@click.argument("owner")
@click.argument("id")
@json_option
@click.pass_obj
def show(terminal: "Terminal", /, owner: str, id: str, *, as_json: bool) -> None:  # noqa: A002 - the argument's name
    """Show the whole story of OWNER's submission ID: what it says, its task, every attempt, what it waits for."""
    story = terminal.ask(lambda desk: desk.get(*_one(owner, id)))
    print_document(story) if as_json else _tell(story, terminal.zone)


@submissions.command()
@click.argument("owner")
@click.argument("id")
@why_option
@json_option
@click.pass_obj
def retry(terminal: "Terminal", /, owner: str, id: str, **said: Any) -> None:  # noqa: A002, ANN401
    """Have OWNER's submission ID sent again, with the same UUID and bytes.

    Overrides neither a wait that the specialist asked for nor an open breaker nor a hold.
    """
    _act(terminal, "retry", owner, id, said)


@submissions.command()
@click.argument("owner")
@click.argument("id")
@why_option
@json_option
@click.pass_obj
def reopen(terminal: "Terminal", /, owner: str, id: str, **said: Any) -> None:  # noqa: A002, ANN401
    """Begin a new schedule for OWNER's submission ID, which was rejected, exhausted or abandoned.

    Like retry, but does nothing (exit code 5) to one that still waits.
    """
    _act(terminal, "retry", owner, id, said, only=REOPENED)


@submissions.command()
@click.argument("owner")
@click.argument("id")
@why_option
@json_option
@click.pass_obj
def abandon(terminal: "Terminal", /, owner: str, id: str, **said: Any) -> None:  # noqa: A002, ANN401
    """Give up OWNER's submission ID, which still waits. `reopen` takes that back."""
    _act(terminal, "abandon", owner, id, said)


submissions.add_command(bulk("retry"))
submissions.add_command(bulk("abandon"))


def _one(owner: str, submission: str) -> tuple[str, ...]:
    return "api", "operator", "submissions", owner, submission


def _act(
    terminal: "Terminal",
    action: str,
    owner: str,
    submission: str,
    said: Mapping[str, Any],
    *,
    only: tuple[str, ...] | None = None,
) -> None:
    why = terminal.why(said["why"])

    async def act(desk: "Desk") -> Any:  # noqa: ANN401 - JSON
        if only is not None:
            state = (await desk.get(*_one(owner, submission)))["submission"]["state"]
            if state not in only:
                raise Failure(f"it is {state}: nothing was done", NOT_APPLICABLE)
        return await desk.post(*_one(owner, submission), action, body={"why": why})

    done = terminal.ask(act)
    if said["as_json"]:
        print_document(done)
        return
    moved = done["before"] if done["before"] == done["after"] else f"{done['before']} → {done['after']}"
    click.echo(f"{done['outcome'].replace('_', ' ')}: {moved}")
    for obstacle in done["story"]["obstacles"]:
        click.echo(_obstacle(obstacle, terminal.zone))


def _row(zone: tzinfo, one: dict[str, Any]) -> tuple[object, ...]:
    return (
        when(one["createdAt"], zone),
        one["agent"],
        one["taskId"],
        one["rating"] or "(erased)",
        one["state"],
        one["attemptCount"],
        _ended(one["lastAttempt"]),
        when(one["nextAttemptAt"], zone),
        one["owner"],
        one["id"],
    )


def _ended(attempt: dict[str, Any] | None) -> str:
    if attempt is None:
        return ""
    why = attempt["reason"] or ""
    return " ".join(str(part) for part in (attempt["outcome"], why, attempt["status"] or "") if part)


def _obstacle(obstacle: dict[str, Any], zone: tzinfo) -> str:
    until = f" until {when(obstacle['until'], zone)}" if obstacle["until"] else ""
    return f"in its way: {obstacle['kind'].replace('_', ' ')}{until}"


def _tell(story: dict[str, Any], zone: tzinfo) -> None:
    one, task = story["submission"], story["provenance"]
    print_facts(
        {
            "submission": one["id"],
            "owner": one["owner"],
            "client": one["client"],
            "agent": one["agent"],
            "task": f"{one['taskId']} (ran as {one['ranAs']})",
            "rating": one["rating"] or f"(erased {when(one['erasedAt'], zone)})",
            "comment": one["comment"],
            "created": when(one["createdAt"], zone),
            "state": f"{one['state']} since {when(one['stateSince'], zone)}",
            "saved": when(one["savedAt"], zone),
            "next attempt": when(one["nextAttemptAt"], zone),
            "abandoned": one["abandonedBy"] and f"by {one['abandonedBy']}: {one['abandonedWhy']}",
            "evidence": f"{one['evidence']} {when(one['evidenceAt'], zone)}".strip(),
            "resolution": one["resolution"],
            **(_task(task, zone) if task else {}),
        }
    )
    for obstacle in story["obstacles"]:
        click.echo(_obstacle(obstacle, zone))
    if story["attempts"]:
        click.echo()
        columns = ("attempt", "at", "cause", "outcome", "reason", "status", "ms", "version", "answer")
        print_rows(columns, [_attempt(attempt, zone) for attempt in story["attempts"]])


def _task(task: dict[str, Any], zone: tzinfo) -> dict[str, object]:
    return {
        "conversation": task["conversationId"],
        "answer": task["answerId"],
        "recorded": f"{when(task['createdAt'], zone)} by {task['recordedBy']}",
        "registration": f"version {task['registrationVersion']}",
        "run": task["runId"],
        "task status": f"{task['status']} {when(task['finishedAt'], zone)}".strip(),
        "used": ", ".join(f"{plain(used['kind'])} {plain(used['id'])}" for used in task["evidence"]),
    }


def _attempt(attempt: dict[str, Any], zone: tzinfo) -> tuple[object, ...]:
    ambiguous = " (may have been received)" if attempt["ambiguous"] else ""
    return (
        attempt["number"],
        when(attempt["at"], zone),
        attempt["cause"],
        f"{attempt['outcome']}{ambiguous}",
        attempt["reason"],
        attempt["status"],
        attempt["durationMs"],
        attempt["registrationVersion"],
        attempt["excerpt"],
    )
