"""A tornado: a year's result with each assumption at its ends; needs the extra `kvant[plot]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvant.plan.roi import Swing


def draw(file: Path, swings: Sequence[Swing], base: float, title: str, note: str) -> None:
    """Write the figure, the widest bar on top."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 0.34 * len(swings) + 1.6), layout="constrained")
    axis = figure.subplots()
    places = range(len(swings), 0, -1)
    for what, colour in (("low", "#7a9cc6"), ("high", "#d9885f")):
        widths = [getattr(one, what) - base for one in swings]
        bars = axis.barh(places, widths, left=base, color=colour, height=0.7, label=f"assumption {what}")
        axis.bar_label(
            bars, [f"{getattr(one.at, what):g}" if one.width else "" for one in swings], padding=3, fontsize=7
        )
    axis.axvline(base, color="black", linewidth=0.8)
    axis.set_yticks(places, [one.name for one in swings], fontsize=8)
    axis.set_xlabel("after a year, in the currency of the prices", fontsize=8)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.tick_params(axis="x", labelsize=8)
    axis.margins(x=0.1)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle(title, fontsize=10)
    figure.supxlabel(note, fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(file)
