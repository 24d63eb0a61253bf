"""The alert rules and the dashboard: they fire, they are explained, and they speak of what a relay really exposes."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml
from prometheus_client.parser import text_string_to_metric_families

from relay.cli.program import program
from tests.support.gateway import small_world
from tests.support.processes import until
from tests.support.promtool import promtool
from tests.support.specialist import acknowledge, answering, first

DEPLOY = Path(__file__).parents[2] / "deploy"
RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
RULES = DEPLOY / "prometheus" / "rules.yml"
DASHBOARD = DEPLOY / "grafana" / "feedback-relay.json"

SELECTION = re.compile(r"(feedback_relay_\w+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
OF_THE_SCRAPE = {"job", "instance", "le"}
NO_SAMPLES = {"feedback_relay_jobs_open": {"kind"}, "feedback_relay_jobs_idle_seconds": {"kind"}}
"""Declared in every scrape, without a line while no job is open."""


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[str]:
    """Every expression of the rules and of the dashboard's panels and variables."""
    yield from (alert["expr"] for alert in alerts())
    dashboard = json.loads(DASHBOARD.read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))
    yield from (variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable)


def exposed(page: str) -> Mapping[str, set[str]]:
    """The names of a scrape, each with the labels of its samples."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(page):
        if family.name in NO_SAMPLES:
            found[family.name] = NO_SAMPLES[family.name]
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_alert_fires_and_is_silent(tmp_path: Path):
    """Prometheus's own tool finds the rules sound, and each alert fires where it should and nowhere else."""
    tool = promtool()
    checked = subprocess.run([tool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for name in ("rules.yml", "rules.test.yml"):
        shutil.copy(RULES.parent / name, tmp_path)
    tried = subprocess.run(
        [tool, "test", "rules", "rules.test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert tried.returncode == 0, tried.stdout + tried.stderr


def test_every_panel_asks_what_prometheus_understands(tmp_path: Path):
    """The dashboard's expressions, with its variables filled in, are sound."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    filled = [each.replace("$__rate_interval", "5m").replace("$job", ".*").replace("$agent", ".*") for each in asked]
    rules = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(filled)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    checked = subprocess.run([promtool(), "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "$" not in "".join(filled)


def test_no_alert_is_left_untried():
    """The tests of the rules make every alert fire at least once."""
    tried = set(
        re.findall(r'ALERTS\{alertname="(\w+)",alertstate="firing"', (RULES.parent / "rules.test.yml").read_text())
    )
    assert tried == {alert["alert"] for alert in alerts()}


def test_every_alert_has_its_page_in_the_runbook():
    """Whoever is woken finds a section under the alert's name, and no section is left of an alert that is gone."""
    sections = set(re.findall(r"^### (FeedbackRelay\w+)$", RUNBOOK.read_text(), flags=re.MULTILINE))
    assert sections == {alert["alert"] for alert in alerts()}
    for alert in alerts():
        assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{alert['alert'].lower()}"


async def test_rules_and_dashboard_speak_of_what_is_exposed(tmp_path: Path, sqlite_database_url: str):
    """Every name and every label that they select by stands in a scrape of a relay that has done everything once."""
    world = small_world(tmp_path, sqlite_database_url, reconcile='["10ms"]')
    async with world as (relay, specialists):
        specialists["literature"].behave = first(answering(200, {"saved": True}), acknowledge)
        await relay.record("t1")
        submission = (await relay.rate("t1", wait="respond-async")).json["id"]
        await relay.until(submission, "saved")

        async def page() -> str:
            text = (await relay.call("GET", "/metrics")).body.decode()
            return text if "feedback_relay_checks_total{" in text else ""

        found = exposed(await until(page, "a page with checks"))
    selected = [match for expression in expressions() for match in SELECTION.findall(expression)]
    assert len(selected) > 40
    for name, labels in selected:
        assert name in found
        assert set(LABEL.findall(labels)) <= found[name] | OF_THE_SCRAPE, (name, labels)
    assert not {name for name in found if "subject" in found[name] | {name} or "owner" in found[name]}


def test_the_commands_of_the_runbook_exist():
    """Every command with its options is one that the program has: nobody is sent to type what is not there."""
    commands = re.findall(r"^ *(relay .+)$|`(relay [^`…]+)`", RUNBOOK.read_text(), flags=re.MULTILINE)
    assert len(commands) > 20
    for line in ("".join(found) for found in commands):
        command: click.Command = program
        context = click.Context(program)
        words = shlex.split(line)[1:]
        while isinstance(command, click.Group) and words:
            found = command.get_command(context, words[0])
            assert found is not None, line
            command, words = found, words[1:]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, line
