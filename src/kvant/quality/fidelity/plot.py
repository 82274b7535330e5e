"""Bits against KL: one colour for a preset, one marker for a model; needs the extra `kvant[plot]`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from kvant.quality.fidelity.row import Row

MARKERS = "osD^vP*X"


def draw(file: Path, rows: Sequence[Row], note: str) -> None:
    """Write the figure: the mean over texts of each preset and model; lower and further left is better."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    points: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        points[row.preset, row.model].append(row)
    presets = list(dict.fromkeys(row.preset for row in rows))
    models = list(dict.fromkeys(row.model for row in rows))
    figure = Figure(figsize=(8.5, 5.5), layout="constrained")
    axis = figure.subplots()
    for (preset, model), group in points.items():
        axis.plot(
            sum(row.effective_bits for row in group) / len(group),
            sum(row.kl for row in group) / len(group),
            MARKERS[models.index(model) % len(MARKERS)],
            color=f"C{presets.index(preset) % 10}" if len(presets) <= 10 else None,
            label=preset if model == models[0] else None,
        )
        axis.annotate(
            preset,
            (group[0].effective_bits, sum(row.kl for row in group) / len(group)),
            xytext=(5, 3),
            textcoords="offset points",
            fontsize=7,
        )
    axis.set_yscale("log")
    axis.set_xlabel("effective bits a stored value")
    axis.set_ylabel("KL to the 16-bit cache (nats)")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
    shapes = [
        axis.plot([], [], MARKERS[n % len(MARKERS)], color="grey", label=model)[0]
        for n, model in enumerate(models)
    ]
    axis.legend(handles=shapes, fontsize=8, frameon=False)
    figure.supxlabel(note, fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(file)
