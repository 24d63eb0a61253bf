"""Plots as SVG that stands in a page: drawn by pygal, without the styles and scripts that it puts in.

What a plot looks like is in ``pages.css``, so that it follows the reader's colours. Its numbers stand in a table beside
it; to assistive technology a plot is one picture with a name.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import Element

import pygal
from markupsafe import Markup
from pygal.style import Style

from relay.operators.analytics.model import Share
from relay.web.console.wording import duration

# It leaves a finder of modules in the process, for maps, which nobody draws here. Python 3.12 does not know finders of
# its kind any more, and 3.11 warns of it at every import that comes after.
sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, pygal.PluginImportFixer)]

MOST: Final = 20
"""How many bars a plot of agents has room for; the table beside it has all of them."""
WIDTH: Final = 440
_BAR: Final = 34
_FRAME: Final = 60
_LONGEST_LABEL: Final = 18
_FONT: Final = 13
"""Pixels in a drawing of this width, which pages.css repeats: on a telephone it is two thirds of that."""
_COMMENT: Final = "!--"
_LEFT_OUT: Final = frozenset({_COMMENT, "style", "script", "desc", "defs", "title"})
_COUNTS: Final = (1, 2, 5)
_TIMES: Final = (
    *(1000 * seconds for seconds in (1, 5, 10, 30)),
    *(60_000 * minutes for minutes in (1, 5, 15, 30)),
    *(3_600_000 * hours for hours in (1, 3, 6, 12)),
    *(86_400_000 * days for days in (1, 2, 7, 30, 365)),
)
_MOST_STEPS: Final = 4


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing, None where there is nothing to draw."""

    svg: Markup | None


def stacked(name: str, labels: Sequence[str], series: Mapping[str, Sequence[int]]) -> Plot:
    """A bar for each label, made of one part for each of the series."""
    if not any(map(any, series.values())):
        return Plot(None)
    chart = pygal.HorizontalStackedBar(**_options(len(labels), legend=True))
    chart.x_labels = _reading_down(list(map(_short, labels)))
    for each, values in series.items():
        chart.add(each, _reading_down(list(values)))
    chart.y_labels = steps(max(map(sum, zip(*series.values(), strict=True))), count_step)
    return _drawn(chart, name)


def counts(name: str, labels: Sequence[str], values: Sequence[int]) -> Plot:
    """A bar for each label."""
    return _bars(name, labels, values, count_step, lambda count: f"{count:,.0f}")


def durations(name: str, labels: Sequence[str], values: Sequence[int]) -> Plot:
    """A bar for each label, in milliseconds."""
    return _bars(
        name, labels, values, time_step, lambda milliseconds: duration(round(milliseconds)) if milliseconds else "0"
    )


def _bars(
    name: str, labels: Sequence[str], values: Sequence[int], step: Callable[[int], int], say: Callable[[float], str]
) -> Plot:
    if not any(values):
        return Plot(None)
    chart = pygal.HorizontalBar(**_options(len(labels)), value_formatter=say)
    chart.y_labels = steps(max(values), step)
    chart.x_labels = _reading_down(list(map(_short, labels)))
    chart.add("", _reading_down(list(values)))
    return _drawn(chart, name)


def shares(name: str, labels: Sequence[str], values: Sequence[Share]) -> Plot:
    """A bar for each label, with its interval."""
    if not values:
        return Plot(None)
    chart = pygal.HorizontalBar(
        **_options(len(labels)), classes=("shares",), range=(0, 1), value_formatter=lambda share: f"{share:.0%}"
    )
    chart.x_labels = _reading_down(list(map(_short, labels)))
    chart.y_labels = [0, 0.25, 0.5, 0.75, 1]
    drawn = [{"value": each.share, "ci": {"low": each.low, "high": each.high}} for each in values]
    chart.add("", _reading_down(drawn))
    return _drawn(chart, name)


def columns(name: str, labels: Sequence[str], values: Sequence[int], *, every: int) -> Plot:
    """A column for each label, of which every so many are written."""
    if not any(values):
        return Plot(None)
    chart = pygal.Bar(**{**_options(0), "height": 240}, x_labels_major_every=every, show_minor_x_labels=False)
    chart.value_formatter = lambda count: f"{count:,.0f}"
    chart.y_labels = steps(max(values), count_step)
    chart.x_labels = list(labels)
    chart.add("", list(values))
    return _drawn(chart, name)


def _options(count: int, *, legend: bool = False) -> dict[str, Any]:
    return {
        "width": WIDTH,
        "height": _FRAME + _BAR * count + (50 if legend else 0),
        "margin": 8,
        "margin_right": 28,
        "css": (),
        "js": (),
        "disable_xml_declaration": True,
        "show_legend": legend,
        "legend_at_bottom": True,
        "legend_at_bottom_columns": 2,
        "truncate_label": -1,
        "style": Style(label_font_size=_FONT, major_label_font_size=_FONT, legend_font_size=_FONT),
    }


def steps(most: int, step: Callable[[int], int]) -> list[int]:
    """The marks of an axis: whole numbers, few of them, the last not below the greatest value."""
    by = step(most)
    return list(range(0, most + by, by))


def count_step(most: int) -> int:
    power = 1
    while True:
        for step in _COUNTS:
            if most <= step * power * _MOST_STEPS:
                return step * power
        power *= 10


def time_step(most: int) -> int:
    return next((step for step in _TIMES if most <= step * _MOST_STEPS), _TIMES[-1])


def _reading_down(values: list[Any]) -> list[Any]:
    """Horizontal bars are drawn from the bottom up."""
    return values[::-1]


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _drawn(chart: Any, name: str) -> Plot:  # noqa: ANN401 - pygal has no types
    chart.add_xml_filter(lambda root: _plain(root, name))
    # pygal escapes what it writes, names of agents too; nothing else was put together by hand.
    return Plot(Markup(chart.render(is_unicode=True)))  # noqa: S704


def _plain(root: Element, name: str) -> Element:
    """The drawing alone: no style, no script, no links and no ids, of which a page may have many."""
    for parent in list(root.iter()):
        for child in list(parent):
            if _name(child) in _LEFT_OUT or _is_tooltip(child):
                parent.remove(child)
        for attribute in ("id", "style"):
            parent.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-label", name)
    return root


def _name(element: Element) -> str:
    tag: object = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else _COMMENT


def _is_tooltip(element: Element) -> bool:
    return "tooltip-overlay" in element.get("class", "").split()
