"""JUnit XML: a suite a testsuite, a check a testcase; inconclusive is a failure of its own type."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from kvant.bench.result import place
from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.report.phrases import said
from kvant.quality.gate.report.words import Words, amount
from kvant.quality.gate.verdict import Check, Verdict


def write(file: Path, outcome: Outcome, words: Words) -> None:
    """As CI systems read it: names and types stay the same in every language, messages are of `words`."""
    root = ET.Element("testsuites", name="kvant gate")
    for result in outcome.results:
        cases = [(check.name, check.verdict, _message(check, words)) for check in result.judgement.checks]
        cases = cases or [("served", result.verdict, said(result.reason, words))]
        bad = sum(verdict is not Verdict.PASS for _, verdict, _ in cases)
        suite = ET.SubElement(
            root,
            "testsuite",
            name=f"kvant.gate.{result.suite}",
            tests=str(len(cases)),
            failures=str(bad),
            errors="0",
            time=f"{sum(result.seconds):.1f}",
        )
        for name, verdict, text in cases:
            _case(suite, result, name, verdict, text, said(result.reason, words))
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    place(file, f"<?xml version='1.0' encoding='utf-8'?>\n{text}", "--junit")


def _case(suite: ET.Element, result: Result, name: str, verdict: Verdict, text: str, reason: str) -> None:
    case = ET.SubElement(suite, "testcase", classname=f"kvant.gate.{result.suite}", name=name)
    if verdict is not Verdict.PASS:
        ET.SubElement(case, "failure", type=verdict.value, message=_printable(text)).text = _printable(reason)


def _message(check: Check, words: Words) -> str:
    low, high, margin = (amount(check, x) for x in (check.low, check.high, check.margin))
    method = said(check.method, words)
    return f"{amount(check, check.value)} [{low}, {high}], {words['margin']} {margin}; {method}"


def _printable(text: str) -> str:
    """XML 1.0 has no control characters, and a server's log may."""
    return "".join(c if c in "\n\t" or (c.isprintable() and c < "\ufffe") else "\ufffd" for c in text)
