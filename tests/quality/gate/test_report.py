"""The report: nothing loaded, nothing run, everything escaped, in both languages."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from kvant.errors import ConfigError
from kvant.quality.gate import stats
from kvant.quality.gate.client import Answer
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.report import html, junit, svg, table
from kvant.quality.gate.report.phrases import said
from kvant.quality.gate.report.words import WORDS
from kvant.quality.gate.settings import Code, Golden, Needle, Settings
from kvant.quality.gate.suites.base import Cell, Example, Judgement, Pair
from kvant.quality.gate.suites.long import Task as Tasked
from kvant.quality.gate.suites.long import defect
from kvant.quality.gate.suites.registry import chosen
from kvant.quality.gate.verdict import Verdict, at_most, loses_at_most

DEFECTIVE = (
    Answer("", used=64),
    Answer("The fox", used=3),
    Answer("\ufffd" * 60, used=64),
    Answer("round and " * 60, used=64),
    Answer("狐狸跑过河边又回来" * 2 + "今天天气很好我们去山上看花", used=64),
)
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


def _sayings() -> list[str]:
    """What suites say of answers that are sound, wrong and defective, and looks of how they went."""
    asked = Settings(
        suites=("needle", "longqa", "code", "summary", "long", "golden"),
        needle=Needle(lengths=(256,), trials=1),
        golden=Golden(prompts=2, context=64),
        code=Code(tasks=2, tokens=256),
    )
    found = [
        "inconclusive after 3, 6 tasks, asked on",
        "failed early, after 1 of 3 tasks (error 0.001)",
        "the candidate does not serve: 1",
        "the candidate failed after 1 of 3 tasks: 1",
        "code 1, position 12, KL 0.3",
        *(defect(Tasked("Once", 1, tools=False), one, 64) for one in DEFECTIVE),
    ]
    said_nothing, spoke = Answer(""), Answer("a b", ("a", "b"), ({"a": -0.1}, {"b": -0.1}), used=64)
    for suite in chosen(asked):
        tasks = next(suite.tasks(random.Random(0), Ruler(4.0, 3.0)))
        answered = suite.name in ("long", "golden")
        pairs = [Pair(t, *((spoke, said_nothing) if answered else ("1", "2"))) for t in tasks]
        if suite.name == "golden":
            pairs = [replace(p, task=replace(p.task, expected=("z",))) for p in pairs]
        judged = suite.judge(pairs, 0.05)
        found += [check.method for check in judged.checks]
        found += [*judged.notes, *(one.where for one in judged.examples if one.where)]
    return found


def test_no_sentence_of_a_suite_stays_in_english() -> None:
    names = re.compile(r"KL|McNemar|Clopper-Pearson|alpha|nat|p =|\d[\d.e%-]*|inf")
    for text in _sayings():
        assert not re.search(r"[A-Za-z]", names.sub("", said(text, WORDS["zh"]))), text
        assert said(text, WORDS["en"]) == text


def test_what_lies_beyond_the_scale_is_an_arrow() -> None:
    near = at_most("x", stats.Interval(0.9, 0.5, 1.1), 1.0, "")
    beyond = at_most("x", stats.Interval(7.0, 0.5, 9.0), 1.0, "")
    drawn = [svg.intervals([one], WORDS["en"]) for one in (near, beyond)]
    assert [(one.count("<path"), one.count("<circle")) for one in drawn] == [(0, 1), (1, 0)]


def test_junit_counts_what_did_not_pass(outcome: Outcome, tmp_path: Path) -> None:
    junit.write(tmp_path / "x.xml", outcome, WORDS["en"])
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
        junit.write(nowhere, outcome, WORDS["en"])


def test_json_holds_no_number_that_json_has_not(outcome: Outcome) -> None:
    checks = [at_most("KL (nats)", stats.mean([0.1], 0.05), 0.01, "bootstrap")]
    result = replace(outcome.results[0], judgement=Judgement(checks))
    found = json.loads(json.dumps(replace(outcome, results=[result]).to_json(), allow_nan=False))
    assert found["verdict"] == "fail"
    assert found["results"][0]["judgement"]["checks"][0]["high"] is None
