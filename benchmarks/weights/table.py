"""Weights by KV cache, as a table: `python table.py bf16.json int8.json int4.json`.

The files are of `kvant fidelity --json`: the first of the model itself, the others of its quantised folders
with --control. KL is the mean over texts, in 1e-3 nats, with its standard error: first from the 16-bit model,
then from the same weights with 16-bit KV. "sum" is what both errors alone add up to: that of the weights with
16-bit KV, and that of the KV with 16-bit weights (the first file).
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BITS16 = "16-bit"


@dataclass(frozen=True)
class Mean:
    """Means over texts of one configuration against one control."""

    kl: float = 0.0
    kl_se: float = 0.0
    top1: float = 1.0
    dppl: float = 0.0
    dppl_se: float = 0.0

    def __str__(self) -> str:
        perplexity = f"{self.dppl:+.1%} ± {self.dppl_se:.1%}"
        return f"{1e3 * self.kl:.2f} ± {1e3 * self.kl_se:.2f} | {self.top1:.3f} | {perplexity}"


def mean(rows: list[dict[str, Any]]) -> Mean:
    """Of rows that differ in their text alone, whose errors are independent."""

    def of(name: str) -> float:
        return sum(row[name] for row in rows) / len(rows)

    def error(name: str) -> float:
        return sum(row[name] ** 2 for row in rows) ** 0.5 / len(rows)

    return Mean(of("kl"), error("kl_se"), of("top1"), of("dppl"), error("dppl_se"))


def table(found: dict[str, Any], whole: dict[str, Any]) -> list[str]:
    """The lines of one weight format, for the caches of both files; `whole` is of the model itself."""
    rows = found["rows"]
    cache: dict[str, list[dict[str, Any]]] = {row["preset"]: [] for row in whole["rows"]}
    for row in whole["rows"]:
        cache[row["preset"]].append(row)
    presets = [preset for preset in cache if any(row["preset"] == preset for row in rows)]
    weights, quantised = rows[0].get("weights") or "bf16", bool(found["settings"].get("control"))

    def pick(preset: str, against: bool) -> Mean:
        same = [row for row in rows if row["preset"] == preset and ("against" in row) == against]
        return mean(same) if same else Mean()

    alone = pick(BITS16, quantised)
    lines = []
    for preset in dict.fromkeys([BITS16, *presets]):
        own, total = pick(preset, False), pick(preset, quantised)
        share = mean(cache[preset]) if preset in cache else Mean()
        lines.append(f"| {weights} | {preset} | {total} | {own} | {1e3 * (alone.kl + share.kl):.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    print("| weights | KV | KL | top-1 | perplexity | KL, same weights | top-1 | perplexity | sum |")
    print("|---|---|---|---|---|---|---|---|---|")
    files = [json.loads(file.read_text()) for file in parser.parse_args().files]
    for found in files:
        print("\n".join(table(found, files[0])))


if __name__ == "__main__":
    main()
