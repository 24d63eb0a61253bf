"""``relay operators submissions bulk-retry`` and ``bulk-abandon``: counted first, then done and followed."""

from typing import TYPE_CHECKING, Any, Literal

import click

from relay.cli.operators.following import follow, report
from relay.cli.operators.options import filter_of, filtered, json_option, why_option
from relay.cli.operators.printing import print_document, print_rows

if TYPE_CHECKING:
    from relay.cli.operators.terminal import Terminal

_HELP = {
    "retry": """Have every submission under the filter sent again.

    Without --yes nothing is done: it counts, and says what would become of how many. With --yes it is written down as a
    job, which goes on whatever becomes of this terminal, and is followed to its end.
    """,
    "abandon": """Give up every submission under the filter that still waits.

    Without --yes nothing is done: it counts, and says what would become of how many. With --yes it is written down as a
    job, which goes on whatever becomes of this terminal, and is followed to its end.
    """,
}


def bulk(kind: Literal["retry", "abandon"]) -> click.Command:
    """The command that does this to many."""

    @click.command(f"bulk-{kind}", help=_HELP[kind])
    @filtered
    @click.option("--everything", is_flag=True, help="With --yes and no filter: all of your tenant's submissions.")
    @click.option("--yes", is_flag=True, help="Do it, instead of counting.")
    @click.option("--no-follow", is_flag=True, help="With --yes: end as soon as the job is written down.")
    @why_option
    @json_option
    @click.pass_obj
    def command(terminal: "Terminal", /, **said: Any) -> None:  # noqa: ANN401 - click's keywords
        wanted: dict[str, Any] = {"kind": kind, "filter": filter_of(said)}
        if not said["yes"]:
            _forecast(terminal, wanted, said)
            return
        if not wanted["filter"] and not said["everything"]:
            raise click.UsageError("that is all of your tenant's submissions: choose some, or say --everything")
        wanted["why"] = terminal.why(said["why"])
        job = terminal.ask(lambda desk: desk.post("api", "operator", "jobs", body=wanted))
        if said["no_follow"]:
            report(job, terminal.zone, as_json=said["as_json"])
        else:
            follow(terminal, job, as_json=said["as_json"])

    return command


def _forecast(terminal: "Terminal", wanted: dict[str, Any], said: dict[str, Any]) -> None:
    found = terminal.ask(lambda desk: desk.post("api", "operator", "jobs", body={**wanted, "dryRun": True}))
    if said["as_json"]:
        print_document(found)
        return
    click.echo(f"{found['total']:,} submissions fit. Nothing was done.")
    if found["total"]:
        print_rows(("in state", "how many"), sorted(found["byState"].items()))
        click.echo()
        print_rows(
            ("would be", "how many"), [(name.replace("_", " "), n) for name, n in sorted(found["would"].items())]
        )
        click.echo("Add --yes --why REASON to do it.", err=True)
