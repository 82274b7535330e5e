"""The status of a rollout as people read it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

UNITS = {"divergence": "nats", "disagreement": "of positions"}
LAST = 5
WIDEST = 100


def table(status: Mapping[str, Any], whole: bool = False) -> RenderableType:
    """`status` as `GET /rollout` gives it; with the `whole` history, or the newest of it."""
    history = status["history"]
    shown = history if whole else history[-LAST:]
    return Group(*_head(status), _quantities(status["quantities"]), *_history(shown, len(history)))


def _head(status: Mapping[str, Any]) -> Iterator[str]:
    paused = ", paused" if status["paused"] else ""
    name = escape(status["candidate"])
    yield f"[bold]{name}[/]: {status['phase']}{paused}, {status['weight']:.4g} of traffic"
    if status["trouble"]:
        yield f"[red]holds: {escape(status['trouble'])}[/]"
    if status["phase"] == "rolled_back":
        yield f"  {escape(status['reason'])}"
    if status["step"]:
        step, counts = status["step"], status["counts"]
        yield (
            f"{status['dwelt']:.0f} of {step['dwell']:.0f} s, {counts['compared']['phase']} of "
            f"{step['compared']} compared, {counts['served.candidate']['phase']} of {step['served']} served; "
            f"next {status['next_weight']:.4g}"
        )
    for line in status["why"]:
        yield f"  {status['verdict']}: {escape(line)}"


def _quantities(found: Mapping[str, Mapping[str, Any]]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("quantity", "candidate", "baseline", "worse than", "e-value", "good below", "e-value"):
        shown.add_column(name, justify="left" if name == "quantity" else "right")
    for name, one in found.items():
        worse, good = one["worse"], one["good"]
        shown.add_row(
            f"{name} ({UNITS[name]})" if name in UNITS else name,
            _mean(one["candidate"], one["n"]),
            "" if name in UNITS else _mean(one["baseline"], one["baseline_n"]),
            f"{worse['than']:g}" if name in UNITS else f"+{worse['than']:g}",
            _e_value(worse, "red"),
            f"{good['below']:g}" if name in UNITS else f"+{good['below']:g}",
            _e_value(good, "green"),
        )
    return shown


def _mean(mean: float | None, n: int) -> str:
    return "-" if mean is None else f"{mean:.4f} / {n}"


def _e_value(side: Mapping[str, Any], colour: str) -> str:
    text = f"{side['e_value']:.3g} of {side['threshold']:.3g}"
    return f"[{colour}]{text}[/]" if side["shown"] else text


def _history(shown: list[Mapping[str, Any]], there: int) -> Iterator[str]:
    if more := there - len(shown):
        yield f"{more} earlier {'change' if more == 1 else 'changes'}: kvant rollout status --all"
    for entry in shown:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry["at"]))
        why = escape(textwrap.shorten(entry["why"], WIDEST, placeholder=" ..."))
        yield f"{at}  {entry['phase']} {entry['weight']:.4g}, {escape(entry['who'])}: {why}"
