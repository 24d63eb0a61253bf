"""The overview: its numbers are those of the lists, and its plots are drawings and nothing else."""

import re
from xml.etree.ElementTree import fromstring

from relay.operators.analytics.model import Share
from relay.web.console.pages import plots
from relay.web.console.watches import Watches
from tests.support.console import Browser
from tests.support.consoled import Consoled
from tests.support.specialist import answering

ODD = '<script>alert(1)</script> & "co"'


async def test_numbers(relay: Consoled, operator: Browser):
    """Backlog, saved in the last hour, shares and reasons tell of what was rated, in plots and in tables."""
    for n in range(3):
        await relay.rate(f"t{n}", rating="up" if n else "down")
    relay.specialists["chemistry"].behave = answering(422)
    await relay.rate("t3", agent="chemistry")
    await relay.call("POST", "/api/operator/agents/literature/hold", {"why": "they are moving"}, user="operator")
    await relay.rate("t4")
    page = await operator.get("/console?since=week")
    shown = re.sub(r"\s+", " ", page.text)
    assert "<dt>Waiting</dt><dd>1</dd>" in shown
    assert "<dt>Saved in the last hour</dt><dd>3</dd>" in shown
    assert '<th scope="row">unprocessable</th><td class="count">1</td>' in shown
    assert '<th scope="row">literature</th><td class="count">4</td><td class="count">3</td>' in shown
    assert shown.count("<svg") == 5
    fragment = await operator.get("/console?since=week", **{"X-Fragment": "overview-now"})
    assert (fragment.text.count("<svg"), "<h1>" in fragment.text) == (3, False)


async def test_nothing_yet(operator: Browser):
    """Without any rating each plot says so in words."""
    page = await operator.get("/console")
    assert page.text.count("<svg") == 0
    assert page.text.count("Nothing ") == 5


def test_plots_are_drawings_alone():
    """No style, script, link or id, whatever the labels say: the policy would refuse it, or a page has it twice."""
    drawn = [
        plots.stacked("Backlog", [ODD, "b"], {"pending": [3, 0], "held": [1, 250_000]}),
        plots.durations("Oldest", [ODD], [90_061_000]),
        plots.counts("Reasons", [ODD, "b"], [1, 7]),
        plots.shares("Shares", [ODD], [Share(0.5, 0.2, 0.8)]),
        plots.columns("Pace", [f"12:{n:02}" for n in range(60)], list(range(60)), every=10),
    ]
    for plot in drawn:
        assert plot.svg is not None
        root = fromstring(str(plot.svg))  # noqa: S314 - our own
        names = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert names <= {"svg", "g", "rect", "path", "text"}
        assert {name for element in root.iter() for name in element.attrib}.isdisjoint(
            {"style", "id", "onclick", "href"}
        )
        assert root.get("role") == "img"


def test_marks_are_few_and_whole():
    """An axis ends at or above its greatest value, with a handful of whole numbers."""
    for most in (1, 2, 7, 99, 1_000, 1_234_567):
        marks = plots.steps(most, plots.count_step)
        assert marks[-1] >= most
        assert 2 <= len(marks) <= 8


async def test_a_watch_says_nothing_of_other_tenants(relay: Consoled):
    """It notices a rating of its own tenant, and not another's."""
    own, other = (Watches(relay.world.relay.db).tenant(tenant) for tenant in ("demo", "elsewhere"))
    await own.changed()
    await other.changed()
    rated = await relay.rate("t1")
    await relay.reached(rated["id"], "saved")
    assert await own.changed()
    assert not await own.changed()
    assert not await other.changed()
