"""Drawings of a report, as SVG that needs neither scripts nor fonts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from kvant.quality.gate.report.words import Words, amount
from kvant.quality.gate.suites.base import Cell
from kvant.quality.gate.verdict import Check

COLOURS = {"pass": "#2e7d32", "fail": "#c62828", "inconclusive": "#b26a00"}
CELL, LEFT, TOP = 46, 60, 26
WIDTH, ROW, LABEL, FIGURES = 760, 26, 200, 190


def heatmap(cells: Sequence[Cell], arm: str, words: Words) -> str:
    """One square a cell, green where all was right and red where nothing was."""
    names = [(cell.row, cell.column) for cell in cells]
    rows, columns = (list(dict.fromkeys(side)) for side in zip(*names, strict=True))
    rows.sort(key=lambda name: float(name.rstrip("%")))
    columns.sort(key=lambda name: [int(part) for part in name.split(" × ")])
    width, height = LEFT + CELL * len(columns) * 2, TOP + CELL * len(rows) + 30
    parts = [_text(LEFT, 16, words[arm], "start", bold=True)]
    for n, row in enumerate(rows):
        parts.append(_text(LEFT - 8, TOP + CELL * n + CELL / 2 + 4, row, "end"))
    for n, column in enumerate(columns):
        middle = LEFT + CELL * 2 * n + CELL
        parts.append(_text(middle, height - 12, column, "middle"))
    for cell in cells:
        share = getattr(cell, arm)
        x, y = LEFT + CELL * 2 * columns.index(cell.column), TOP + CELL * rows.index(cell.row)
        parts.append(
            f'<rect x="{x}" y="{y}" width="{2 * CELL - 2}" height="{CELL - 2}" '
            f'fill="hsl({120 * share:.0f} 55% 62%)"><title>{escape(cell.column)}, {escape(cell.row)}: '
            f"{share:.0%} / {cell.n}</title></rect>"
        )
        parts.append(_text(x + CELL, y + CELL / 2 + 4, f"{share:.0%}", "middle"))
    return _svg(width, height, parts)


def intervals(checks: Sequence[Check], words: Words) -> str:
    """A bar for each interval on a scale of its own, on which the margin is always at the same place.

    An arrow at an end of the scale is for what lies beyond it.
    """
    height = ROW * len(checks) + 10
    zero, margin = LABEL + 40.0, LABEL + 250.0
    end = WIDTH - FIGURES
    parts = [
        f'<line x1="{margin}" y1="2" x2="{margin}" y2="{height - 4}" stroke="#555" stroke-dasharray="4 3"/>'
    ]

    start = LABEL + 4.0

    def place(check: Check, value: float) -> float:
        # A gain is drawn as a loss, so that right of the line is always too much.
        towards = value / check.margin if check.margin else math.copysign(9.0, value)
        x = zero + (margin - zero) * towards
        return x if math.isfinite(x) else math.copysign(9e9, towards)

    def inside(x: float) -> float:
        return min(max(start, x), end)

    for n, check in enumerate(checks):
        y = ROW * n + ROW / 2 + 2
        colour = COLOURS[check.verdict.value]
        low, high = sorted((place(check, check.low), place(check, check.high)))
        middle = place(check, check.value) if math.isfinite(check.value) else low
        arrows = [
            _arrow(edge, y, way, colour)
            for edge, way in ((start, -1), (end, 1))
            if any(way * (x - edge) > 0 for x in (low, middle, high))
        ]
        figures = f"{amount(check, check.value)} [{amount(check, check.low)}, {amount(check, check.high)}]"
        parts += [
            _text(LABEL - 8, y + 4, words[check.name], "end"),
            f'<line x1="{inside(low):.1f}" y1="{y}" x2="{inside(high):.1f}" y2="{y}" stroke="{colour}" '
            'stroke-width="3"/>',
            *arrows,
            _text(end + 10, y + 4, figures, "start"),
        ]
        if start <= middle <= end:
            parts.append(f'<circle cx="{middle:.1f}" cy="{y}" r="5" fill="{colour}"/>')
    return _svg(WIDTH, height, parts)


def _arrow(x: float, y: float, way: int, colour: str) -> str:
    return f'<path d="M{x - 8 * way:.1f} {y - 6} L{x:.1f} {y} L{x - 8 * way:.1f} {y + 6} Z" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" font-size="12">{"".join(parts)}</svg>'
    )
