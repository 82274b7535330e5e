"""One page of results: in a terminal, and as one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from kvant.bench.result import place
from kvant.launch.result import Item, Step, Verdict, worst
from kvant.quality.gate.report.html import STYLE

NOTES = {
    Verdict.INCONCLUSIVE: "Inconclusive is not pass: more rounds, tasks or time decide.",
    Verdict.NOT_RUN: "Not run is not pass.",
}
TAGS = {Verdict.NOT_RUN: "inconclusive"}
"""Classes of the style that have another name than the verdict."""


def lines(steps: Sequence[Step]) -> list[str]:
    """One line an item under one a step, what has not passed once more, and the verdict last."""
    found = []
    for step in steps:
        found.append(f"{step.name:<16}{step.verdict.value:<14}{step.seconds:,.0f} s{_earlier(step)}")
        found += [_line(item) for item in step.items]
    if missing := [f"  {_missing(*one)}" for one in _open(steps)]:
        found += ["not passed:", *missing]
    return [*found, f"verdict: {worst(step.verdict for step in steps).value}"]


def to_json(steps: Sequence[Step], facts: Mapping[str, Any]) -> dict[str, Any]:
    verdict = worst(step.verdict for step in steps).value
    return {
        "version": 1,
        "verdict": verdict,
        "steps": [step.to_json() for step in steps],
        "facts": dict(facts),
    }


def write(file: Path, steps: Sequence[Step], facts: Mapping[str, Any]) -> None:
    place(file, page(steps, facts), "--html")


def page(steps: Sequence[Step], facts: Mapping[str, Any]) -> str:
    """Everything that a server said is escaped; nothing runs."""
    verdict = worst(step.verdict for step in steps)
    rows = "".join(
        f'<tr><td><a href="#{n}">{escape(step.name)}</a></td><td>{_tag(step.verdict)}</td>'
        f"<td>{len(step.items)}</td><td>{step.seconds:,.0f}</td><td>{escape(step.earlier or 'now')}</td></tr>"
        for n, step in enumerate(steps)
    )
    note = f"<p>{NOTES[verdict]}</p>" if verdict in NOTES else ""
    missing = "".join(f"<li>{escape(_missing(*one))}</li>" for one in _open(steps))
    shown = "".join(f"<tr><th>{escape(k)}</th><td>{escape(str(v))}</td></tr>" for k, v in facts.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>Launch check: {verdict.value}</title><style>{STYLE}</style></head><body>"
        f"<h1>Launch check {_tag(verdict)}</h1>{note}<ul>{missing}</ul>"
        f"<table><tr><th>step</th><th>verdict</th><th>checks</th><th>seconds</th><th>run</th></tr>{rows}</table>"
        + "".join(_section(n, step) for n, step in enumerate(steps))
        + f"<details><summary>where it was measured</summary><table>{shown}</table></details></body></html>\n"
    )


def _open(steps: Sequence[Step]) -> list[tuple[Step, Item]]:
    """All that keeps the list from passing."""
    return [(step, item) for step in steps for item in step.items if item.verdict is not Verdict.PASS]


def _earlier(step: Step) -> str:
    return f", of an earlier run ({step.earlier})" if step.earlier else ""


def _missing(step: Step, item: Item) -> str:
    return f"{item.verdict.value:<14}{step.name}: {item.name}"


def _line(item: Item) -> str:
    limit = f" ({item.limit})" if item.limit else ""
    shown = "" if item.verdict is Verdict.PASS else f"{item.verdict.value}: "
    return f"  {item.name:<28}{shown}{item.found}{limit}"


def _section(number: int, step: Step) -> str:
    rows = "".join(
        f"<tr><td>{escape(item.name)}</td><td>{escape(item.found)}</td><td>{escape(item.limit)}</td>"
        f"<td>{_tag(item.verdict)}</td></tr>"
        for item in step.items
    )
    return (
        f'<h2 id="{number}">{escape(step.name)} {_tag(step.verdict)}</h2>'
        f"<table><tr><th>check</th><th>found</th><th>limit</th><th>verdict</th></tr>{rows}</table>"
    )


def _tag(verdict: Verdict) -> str:
    return f'<span class="tag {TAGS.get(verdict, verdict.value)}">{verdict.value}</span>'
