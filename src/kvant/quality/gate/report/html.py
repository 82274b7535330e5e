"""One page, self-contained: verdicts, intervals against margins, heatmaps, and examples in their context."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from kvant.bench.result import place
from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.report import svg
from kvant.quality.gate.report.phrases import said
from kvant.quality.gate.report.words import Words, amount, scores
from kvant.quality.gate.suites.base import Example
from kvant.quality.gate.verdict import Check, Verdict

STYLE = """
body{font:15px/1.5 system-ui,"PingFang SC","Microsoft YaHei",sans-serif;max-width:60rem;margin:2rem auto;
padding:0 1rem;color:#1c1c1c}table{border-collapse:collapse;width:100%;margin:.6rem 0}
td,th{border-bottom:1px solid #ddd;padding:.3rem .6rem;text-align:left;vertical-align:top}
.tag{color:#fff;border-radius:.3rem;padding:.1rem .5rem;white-space:nowrap}
.pass{background:#2e7d32}.fail{background:#c62828}.inconclusive{background:#b26a00}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:.2rem 0;font-size:12.5px}
.context{background:#f5f5f5;padding:.4rem}.small{color:#666;font-size:12.5px}svg{max-width:100%;height:auto}
details{margin:.4rem 0}summary{cursor:pointer}h1,h2,p,summary{overflow-wrap:anywhere}
.wide{overflow-x:auto}.wide td,.wide th{min-width:4.5rem}.answers th{width:1%;white-space:nowrap}
"""


def write(file: Path, outcome: Outcome, words: Words) -> None:
    """The report in the language of `words`."""
    place(file, page(outcome, words), "--html")


def page(outcome: Outcome, words: Words) -> str:
    """Everything that came from a model or a user is escaped; the page loads nothing and runs nothing."""
    arms = " → ".join(escape(one) for one in (outcome.baseline, outcome.candidate))
    rows = "".join(_row(result, words) for result in outcome.results)
    heads = "".join(f"<th>{words[name]}</th>" for name in ("suite", "verdict", "tasks", "seconds", "scores"))
    unsure = outcome.verdict is Verdict.INCONCLUSIVE
    hint = f"<p>{words['inconclusive is not pass']}</p>" if unsure else ""
    facts = escape(json.dumps(outcome.facts, indent=1, ensure_ascii=False))
    return (
        f'<!doctype html><html lang="{words["lang"]}"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{words['title']}: {arms}</title><style>{STYLE}</style></head><body>"
        f"<h1>{words['title']} {_tag(outcome.verdict, words)}</h1>"
        f"<p>{words['baseline']} → {words['candidate']}: <b>{arms}</b>; {words['model']}: "
        f"{escape(outcome.model)}; {words['seed']} {outcome.seed}</p>{hint}"
        + _wide(heads, rows)
        + "".join(_section(result, words) for result in outcome.results)
        + f"<details><summary>{words['machine']}</summary><pre>{facts}</pre></details></body></html>\n"
    )


def _row(result: Result, words: Words) -> str:
    shown = "<br>".join(f"{escape(name)}: {escape(pair)}" for name, pair in scores(result, words))
    seconds = " + ".join(f"{one:.0f}" for one in result.seconds)
    cells = (
        f'<a href="#{result.suite}">{result.suite}</a>',
        _tag(result.verdict, words),
        f"{result.n}/{result.planned}",
        seconds,
        shown,
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _section(result: Result, words: Words) -> str:
    found = result.judgement
    parts = [f'<h2 id="{result.suite}">{result.suite} {_tag(result.verdict, words)}</h2>']
    parts += [f"<p>{escape(said(note, words))}</p>" for note in (result.reason, *found.notes) if note]
    if found.checks:
        parts.append(svg.intervals(found.checks, words))
        names = ("check", "measured", "interval", "margin", "verdict", "method")
        heads = "".join(f"<th>{words[name]}</th>" for name in names)
        parts.append(_wide(heads, "".join(_check(one, words) for one in found.checks)))
    if found.cells:
        parts.append(f"<h3>{words['heatmap']}: {words['depth']}, {words['length']}</h3>")
        parts += [svg.heatmap(found.cells, arm, words) for arm in ("baseline", "candidate")]
    if found.examples:
        parts.append(f"<h3>{words['examples']}</h3>")
        parts += [_example(one, words) for one in found.examples]
    return "".join(parts)


def _wide(heads: str, rows: str) -> str:
    """A table that a narrow screen scrolls, alone."""
    return f'<div class="wide"><table><tr>{heads}</tr>{rows}</table></div>'


def _check(check: Check, words: Words) -> str:
    sign = "≥" if check.margin < 0 else "≤"
    cells = (
        words[check.name],
        amount(check, check.value),
        f"[{amount(check, check.low)}, {amount(check, check.high)}]",
        f"{sign} {amount(check, check.margin)}",
        _tag(check.verdict, words),
        f'<span class="small">{escape(said(check.method, words))}</span>',
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _example(one: Example, words: Words) -> str:
    rows = [("baseline", one.baseline), ("candidate", one.candidate)]
    rows += [("expected", one.expected)] if one.expected else []
    body = "".join(
        f"<tr><th>{words[name]}</th><td><pre>{escape(text)}</pre></td></tr>" for name, text in rows
    )
    return (
        f"<details open><summary>{escape(said(one.where, words))}</summary>"
        f'<pre class="context">{escape(one.context)}</pre><table class="answers">{body}</table></details>'
    )


def _tag(verdict: Verdict, words: Words) -> str:
    return f'<span class="tag {verdict.value}">{words[verdict.value]}</span>'
