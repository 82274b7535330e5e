"""Bits against KL: a colour for each preset, grey for peers, a marker for each model; needs `kvant[plot]`."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from kvant.quality.fidelity.row import Row

MARKERS = "osD^vP*X"
NOISE = "stock"
"""Drawn as a line: stock vLLM has 16 bits, and its KL is the noise that nothing can be told from."""


def draw(file: Path, rows: Sequence[Row], peers: Collection[str], note: str) -> None:
    """Write the figure: the mean over texts of each preset and model; lower and further left is better."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    points: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        points[row.preset, row.model].append(row)
    ours = [name for name in dict.fromkeys(row.preset for row in rows) if name not in {*peers, NOISE}]
    models = list(dict.fromkeys(row.model for row in rows))
    figure = Figure(figsize=(8.5, 5.5), layout="constrained")
    axis = figure.subplots()
    for (preset, model), group in points.items():
        kl = sum(row.kl for row in group) / len(group)
        if preset == NOISE:
            axis.axhline(kl, color="grey", linewidth=0.8, linestyle=":")
            continue
        place = group[0].effective_bits, kl
        colour = f"C{ours.index(preset) % 10}" if preset in ours else "grey"
        axis.plot(*place, MARKERS[models.index(model) % len(MARKERS)], color=colour)
        axis.annotate(
            preset, place, xytext=(5, 3), textcoords="offset points", fontsize=7, color=colour, clip_on=True
        )
    axis.set_yscale("log")
    axis.margins(x=0.12, y=0.08)
    axis.set_xlabel("effective bits a stored value")
    axis.set_ylabel("KL to the 16-bit cache (nats)")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    handles = [
        Line2D([], [], marker=MARKERS[n % len(MARKERS)], linestyle="", color="black", label=model)
        for n, model in enumerate(models)
    ]
    axis.legend(handles=handles, fontsize=8, frameon=False)
    figure.supxlabel(textwrap.fill(note, 130), fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(file)
