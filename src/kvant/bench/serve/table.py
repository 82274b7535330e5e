"""The rows as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvant.bench.plot import Panel
from kvant.bench.serve import figures

COLUMNS = (
    ("throughput", "tokens/s", 1.0),
    ("decode_throughput", "decode tokens/s", 1.0),
    ("tpot", "ms/token", 1e3),
    ("ttft", "s to first", 1.0),
)
"""Figure, its heading, and what its seconds are multiplied with."""


def header() -> str:
    """Two lines: what is measured, then the sides and the ratio, above 1 where Kvant is better."""
    names = "".join(f"{title:^27}" for _, title, _ in COLUMNS)
    under = "".join(f"{'bf16':>10}{'kvant':>9}{'ratio':>8}" for _ in COLUMNS)
    return f"{'':<30}{names}\n{'case':<18}{'format':<12}{under}{'rounds':>9}{'spread':>8}"


def line(row: Mapping[str, Any]) -> str:
    """One row; a dash where the streams never all decode at the same time."""
    cells = ""
    for name, _, scale in COLUMNS:
        stock, ours, ratio = row["stock"][name], row["kvant"][name], row["ratio"][name]
        if ratio is None:
            cells += f"{'-':>10}{'-':>9}{'-':>8}"
        else:
            cells += f"{stock['median'] * scale:>10.2f}{ours['median'] * scale:>9.2f}{ratio:>8.2f}"
    spread = figures.spread(row["stock"], row["kvant"])
    return f"{label(row):<18}{row['format']:<12}{cells}{row['rounds']:>9}{spread:>8.0%}"


def label(row: Mapping[str, Any]) -> str:
    """A case as the table and the plot name it."""
    fixed = f" in {row['memory']} GiB" if row["fixed_memory"] else ""
    return f"{row['streams']} x {row['context']}{fixed}"


def panels(rows: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """The rows as bars: a panel for each figure, a series for each format."""
    cases = list(dict.fromkeys(map(label, rows)))
    by = {(label(row), row["format"]): row["ratio"] for row in rows}
    formats = list(dict.fromkeys(row["format"] for row in rows))
    titles = {"throughput": "throughput", "tpot": "time per output token", "ttft": "time to first token"}
    return [
        Panel(
            f"{title}, times as good as stock vLLM bf16",
            cases,
            {fmt: [by.get((case, fmt), {}).get(name) for case in cases] for fmt in formats},
        )
        for name, title in titles.items()
    ]
