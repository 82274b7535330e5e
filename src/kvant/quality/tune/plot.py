"""The front: bits against KL, predicted, measured, and uniform; needs `kvant[plot]`."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from pathlib import Path

from kvant.quality.fidelity.row import Row
from kvant.quality.tune.tune import Outcome


def draw(file: Path, outcome: Outcome, title: str, note: str) -> None:
    """Write the figure; measured points are the mean over held-out texts, the line is of the tuning texts."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 5.5), layout="constrained")
    axis = figure.subplots()
    bits = [point.bits for point in outcome.front]
    axis.plot(bits, [point.kl for point in outcome.front], "C0:", label="front, predicted (tuning text)")
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in outcome.rows:
        groups[row.preset].append(row)
    for label, marker, colour, line, tuned in (
        ("uniform", "s", "C7", "", False),
        ("tuned", "o", "C0", "-", True),
    ):
        named = {name: rows for name, rows in groups.items() if name.startswith("tuned") == tuned}
        kl = [sum(row.kl for row in rows) / len(rows) for rows in named.values()]
        error = [sum(row.kl_se**2 for row in rows) ** 0.5 / len(rows) for rows in named.values()]
        where = [rows[0].bits for rows in named.values()]
        axis.errorbar(
            where, kl, error, marker=marker, color=colour, linestyle=line, label=f"{label}, held out"
        )
        for x, y, name in zip(where, kl, named, strict=True):
            if name == outcome.name or not tuned:
                axis.annotate(name, (x, y), xytext=(6, 4), textcoords="offset points", fontsize=7)
    axis.set_yscale("log")
    axis.margins(x=0.12, y=0.08)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("bits a stored value, before sinks and window")
    axis.set_ylabel("KL to the 16-bit cache (nats)")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(fontsize=8, frameon=False)
    figure.supxlabel(textwrap.fill(note, 130), fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(file)
