"""``relay check-config --online``: looking at everything that the configuration points at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from relay.cli.running import print_json, run

if TYPE_CHECKING:
    from relay.config import Config
    from relay.operators.reachability import Finding

NAMES = {"issuer": "issuer", "token_endpoint": "token endpoint", "agent": "agent", "console": "console's issuer"}


def check(config: "Config", *, as_json: bool) -> bool:
    """Tell what was found, and whether all of it is in order."""
    findings = run(look(config))
    in_order = all(finding.problem is None for finding in findings)
    if as_json:
        print_json({"ok": in_order, "findings": [shown(finding) for finding in findings]})
    else:
        for finding in findings:
            click.echo(line(finding))
    return in_order


async def look(config: "Config") -> "list[Finding]":
    from registry.egress import Egress
    from relay.operators.reachability import look_at_all, probes

    async with Egress(config.egress_policy()) as egress:
        with progress(len(probes(config, egress))) as advance:
            return await look_at_all(config, egress, lambda _finding: advance())


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr, where somebody is watching."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("looking", total=total)
        yield lambda: bar.advance(task)


def shown(finding: "Finding") -> dict[str, object]:
    return {
        "kind": finding.kind,
        "url": finding.url,
        "key": finding.named,
        "ok": finding.problem is None,
        "problem": finding.problem,
        "found": finding.told,
        "advice": finding.advice,
    }


def line(finding: "Finding") -> str:
    what = f"{NAMES[finding.kind]} {finding.url}: {finding.told}"
    if finding.problem is None:
        return f"ok          {what}"
    return f"would fail  {what}. {finding.named}: {finding.advice}"
