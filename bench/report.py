"""What was measured, as lines, as a table and as a plot."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.results import Measured

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def line(one: Measured) -> str:
    low, high = one.spread
    wanted = "" if one.wanted is None else f", wanted {'≤' if one.less else '≥'} {one.wanted:g}"
    return (
        f"{one.what}: {statistics.median(one.ours):,.1f} {one.unit}; {one.against}: "
        f"{statistics.median(one.theirs):,.1f}; ratio {one.ratio:.2f} ({low:.2f} to {high:.2f}){wanted}"
    )


def plain(one: Measured) -> dict[str, Any]:
    return {
        "what": one.what,
        "against": one.against,
        "unit": one.unit,
        "ratio": round(one.ratio, 3),
        "ours": list(one.ours),
        "theirs": list(one.theirs),
    }


def table(measured: Sequence[Measured]) -> str:
    rows = ["| what | against | ours | theirs | ratio | rounds from … to | wanted |", "|---|---|---|---|---|---|---|"]
    for one in measured:
        low, high = one.spread
        wanted = (
            "" if one.wanted is None else f"{'≤' if one.less else '≥'} {one.wanted:g} {'✓' if one.reached else '✗'}"
        )
        rows.append(
            f"| {one.what} | {one.against} | {statistics.median(one.ours):,.1f} {one.unit} "
            f"| {statistics.median(one.theirs):,.1f} | {one.ratio:.2f} | {low:.2f} … {high:.2f} | {wanted} |"
        )
    return "\n".join(rows)


def write(path: Path, measured: Sequence[Measured], conditions: str) -> None:
    """Replace what stands between the marks of the page, and the plot beside it."""
    plot(path.with_suffix(".svg"), measured)
    text = path.read_text(encoding="utf-8")
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    picture = f"![ratios]({path.stem}.svg)"
    path.write_text(f"{head}{BEGIN}\n{conditions}\n\n{table(measured)}\n\n{picture}\n{END}{tail}", encoding="utf-8")


def plot(path: Path, measured: Sequence[Measured]) -> None:
    """One bar a ratio, with the spread of its rounds and a mark where it was wanted."""
    import matplotlib as mpl  # noqa: PLC0415 - only for the plot

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams["svg.hashsalt"] = "feedback-relay"
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(measured) + 1.2), layout="constrained")
    for place, one in enumerate(reversed(measured)):
        low, high = one.spread
        good = one.reached is not False
        axes.barh(place, one.ratio, color="#3b7a57" if good else "#b5651d", height=0.55)
        axes.plot([low, high], [place, place], color="black", linewidth=1)
        if one.wanted is not None:
            axes.plot([one.wanted], [place], marker="|", color="black", markersize=16)
    axes.set_yticks(
        range(len(measured)), [f"{one.what}\nagainst {one.against}" for one in reversed(measured)], fontsize=7
    )
    axes.set_xlabel("ratio of medians; the line is the range of rounds, the mark what was wanted")
    figure.savefig(path, metadata={"Date": None})
