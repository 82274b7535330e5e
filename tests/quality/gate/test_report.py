"""The report: nothing loaded, nothing run, everything escaped, in both languages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvant.errors import ConfigError
from kvant.quality.gate import stats
from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.report import html, junit, table
from kvant.quality.gate.report.words import WORDS
from kvant.quality.gate.suites.base import Cell, Example, Judgement
from kvant.quality.gate.verdict import Verdict, at_most, loses_at_most

HOSTILE = "<script>alert(1)</script>\x00\ud800 & 深度"


@pytest.fixture
def outcome() -> Outcome:
    checks = [
        at_most("KL (nats)", stats.Interval(0.02, 0.015, 0.03), 0.01, "bootstrap"),
        loses_at_most("right answers gained", stats.gain([(True, True)] * 9, 0.05), 0.1, "exact", 1.0),
        at_most("perplexity grows", stats.Interval(0.001, -0.01, 0.01), 0.03, "bootstrap"),
    ]
    judgement = Judgement(
        checks,
        {"right": (1.0, 0.5), "perplexity": (12.5, 13.0)},
        [Example("somewhere", HOSTILE, HOSTILE, HOSTILE, HOSTILE)],
        [Cell("0%", "512 × 1", 1.0, 0.5, 2), Cell("100%", "512 × 1", 1.0, 1.0, 2)],
    )
    done = Result("needle", Verdict.FAIL, 9, 9, (1.0, 2.0), judgement)
    down = Result("golden", Verdict.FAIL, 0, 5, (1.0, 0.0), Judgement(()), f"does not serve: {HOSTILE}")
    return Outcome("bf16", HOSTILE, "m", 3, [done, down], {"device": HOSTILE})


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_self_contained_and_escaped(outcome: Outcome, language: str) -> None:
    page = html.page(outcome, WORDS[language])
    assert f'<html lang="{language}">' in page
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)|@import|url\(""", page)
    assert page.count("<svg") == 3  # intervals, and a heatmap for each arm
    for drawing in re.findall(r"<svg.*?</svg>", page):
        ET.fromstring(drawing)


def test_the_chinese_report_leaves_no_word_in_english(outcome: Outcome) -> None:
    asked: set[str] = set()

    class Asked(dict):
        def __missing__(self, word: str) -> str:
            asked.add(word)
            return word

    html.page(outcome, Asked(lang="zh"))
    table.lines(outcome, Asked())
    unsure = replace(outcome, results=[replace(outcome.results[0], verdict=Verdict.INCONCLUSIVE)])
    html.page(unsure, Asked(lang="zh"))
    assert asked - set(WORDS["zh"]) == set()


def test_junit_counts_what_did_not_pass(outcome: Outcome, tmp_path: Path) -> None:
    junit.write(tmp_path / "x.xml", outcome)
    needle, golden = ET.parse(tmp_path / "x.xml").getroot()
    assert (needle.get("tests"), needle.get("failures")) == ("3", "2")
    assert [one.get("type") for one in needle.iter("failure")] == ["fail", "inconclusive"]
    assert (golden.get("tests"), golden.get("failures")) == ("1", "1")


def test_a_report_is_written_whatever_a_model_wrote_or_refused_by_name(
    outcome: Outcome, tmp_path: Path
) -> None:
    html.write(tmp_path / "x.html", outcome, WORDS["en"])
    assert "&lt;script&gt;" in (tmp_path / "x.html").read_text()
    nowhere = tmp_path / "none" / "x"
    with pytest.raises(ConfigError, match=f"cannot write --html {nowhere}"):
        html.write(nowhere, outcome, WORDS["en"])
    with pytest.raises(ConfigError, match=f"cannot write --junit {nowhere}"):
        junit.write(nowhere, outcome)


def test_json_holds_no_number_that_json_has_not(outcome: Outcome) -> None:
    checks = [at_most("KL (nats)", stats.mean([0.1], 0.05), 0.01, "bootstrap")]
    result = replace(outcome.results[0], judgement=Judgement(checks))
    found = json.loads(json.dumps(replace(outcome, results=[result]).to_json(), allow_nan=False))
    assert found["verdict"] == "fail"
    assert found["results"][0]["judgement"]["checks"][0]["high"] is None
