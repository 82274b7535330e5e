"""Bars of ratios by case, one panel for each thing compared; needs the extra `kvant[plot]`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kvant.errors import ConfigError

SUFFIXES = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Panel:
    """Ratios of one comparison: `series` has a value for each label, None where there is none."""

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]


def check(file: Path | None) -> None:
    """Before anything is measured: `ConfigError` for what `draw` would refuse afterwards."""
    if file is None:
        return
    if file.suffix not in SUFFIXES:
        raise ConfigError(f"--plot {file}: the name must end in {', '.join(SUFFIXES)}")
    if not os.access(file.parent, os.W_OK):
        raise ConfigError(f"--plot {file}: nothing can be written in {file.parent}")
    if find_spec("matplotlib") is None:
        mend = f"{sys.executable} -m pip install 'matplotlib>=3.8'"  # right in a clone and outside
        raise ConfigError(f"--plot needs matplotlib, which is not installed: {mend}")


def draw(file: Path, panels: Sequence[Panel], title: str, note: str) -> None:
    """Write the figure; `note` tells where it was measured."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    cases = max(len(panel.labels) for panel in panels)
    figure = Figure(figsize=(max(7.0, 1.6 * cases + 2), 2.6 * len(panels) + 0.8), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axis, panel in zip(axes, panels, strict=True):
        width = 0.8 / len(panel.series)
        for number, (name, values) in enumerate(panel.series.items()):
            offset = (number - (len(panel.series) - 1) / 2) * width
            places = [i + offset for i in range(len(values))]
            bars = axis.bar(places, [value or 0.0 for value in values], width, label=name)
            axis.bar_label(bars, ["-" if v is None else f"{v:.2f}" for v in values], padding=2, fontsize=8)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_title(panel.title, loc="left", fontsize=10)
        axis.set_xticks(range(len(panel.labels)), panel.labels, fontsize=8)
        axis.margins(y=0.15)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(fontsize=8, frameon=False, ncols=len(panels[0].series))
    figure.suptitle(title, fontsize=11)
    figure.supxlabel(note, fontsize=7)
    with rc_context({"svg.fonttype": "none"}):  # text stays text
        figure.savefig(file)
