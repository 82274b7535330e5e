"""Tasks are made from a seed alone, at the length and place that were asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kvant.quality.gate import sandbox
from kvant.quality.gate.client import Answer
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.recorded import Prompt
from kvant.quality.gate.settings import Code, Longqa, Needle, Settings, Summary
from kvant.quality.gate.suites import needle
from kvant.quality.gate.suites.base import Pair
from kvant.quality.gate.suites.code import Code as CodeSuite
from kvant.quality.gate.suites.long import Task as LongTask
from kvant.quality.gate.suites.long import defect
from kvant.quality.gate.suites.longqa import Longqa as LongqaSuite
from kvant.quality.gate.suites.registry import SUITES, chosen
from kvant.quality.gate.suites.summary import Summary as SummarySuite
from kvant.quality.gate.suites.summary import score
from kvant.quality.gate.verdict import Verdict

RULER = Ruler(4.0, 3.0)
ALL = Settings(suites=tuple(SUITES))


@pytest.mark.parametrize("name", SUITES)
def test_one_seed_makes_one_set_of_tasks(name: str) -> None:
    def made(seed: int) -> list:
        (suite,) = chosen(ALL.model_copy(update={"suites": (name,)}))
        return list(next(suite.tasks(random.Random(seed), RULER)))

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert made(1)


def test_a_needle_lies_where_it_should() -> None:
    options = Needle(lengths=(1000, 4000), depths=(0.0, 0.5, 1.0), keys=(1, 4), trials=2)
    tasks = next(needle.Needle(options).tasks(random.Random(0), RULER))
    assert len(tasks) == 2 * 3 * 2 * 2
    for task in tasks:
        assert len(task.prompt) / RULER.prose == pytest.approx(task.length, abs=250)
        assert task.prompt.count(task.number) == 1
        assert task.prompt.count("The magic number of") == task.keys + 1
        found = task.prompt.index(task.needle) / len(task.prompt)
        assert found == pytest.approx(task.depth, abs=0.25)


def test_needles_lost_fail_and_kept_pass() -> None:
    suite = needle.Needle(Needle(trials=2))
    tasks = next(suite.tasks(random.Random(0), RULER))
    good = [f" {task.number}." for task in tasks]
    kept = suite.judge([Pair(t, a, a) for t, a in zip(tasks, good, strict=True)], 0.05)
    lost = suite.judge([Pair(t, a, " 1") for t, a in zip(tasks, good, strict=True)], 0.05)
    assert [one.checks[0].verdict for one in (kept, lost)] == [Verdict.PASS, Verdict.FAIL]
    assert tasks[0].needle in lost.examples[0].context
    assert {(cell.baseline, cell.candidate) for cell in lost.cells} == {(1.0, 0.0)}


def test_code_that_is_expected_runs() -> None:
    tasks = next(CodeSuite(Code(tasks=6, tokens=512)).tasks(random.Random(0), RULER))
    for task in tasks:
        assert sandbox.passes(f"{task.before} {task.expected}\n{task.after}", 5)
        assert not sandbox.passes(f"{task.before} 1\n{task.after}", 5)
        assert task.prompt.endswith(task.before.splitlines()[-1])


def test_a_value_is_retrieved_and_not_called_again() -> None:
    suite = CodeSuite(Code(tasks=2, tokens=512))
    pattern, retrieve = next(suite.tasks(random.Random(0), RULER))
    again = " " + retrieve.before.rsplit("assert ", 1)[1].removesuffix(" ==")
    assert sandbox.passes(f"{retrieve.before}{again}", 5)
    answers = [(pattern, f" {pattern.expected}"), (retrieve, f" {retrieve.expected}"), (retrieve, again)]
    right = [suite.judge([Pair(task, answer, answer)], 0.05).scores["right"][0] for task, answer in answers]
    assert right == [1, 1, 0]


def test_an_answer_without_letters_is_not_found_everywhere() -> None:
    suite = LongqaSuite(Longqa(file=Path("mine.jsonl")))
    pairs = [Pair(Prompt("p", expected=("$?",)), answer, answer) for answer in ("nothing", "it is $?")]
    assert suite.judge(pairs, 0.05).scores["right"] == (0.5, 0.5)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(" \n", finish="length", used=64), "wrote nothing"),
        (Answer("The fox", finish="length", used=3), "stopped after 3 of 64 tokens"),
        (Answer("The fox went to the river.", finish="length", used=64), ""),
    ],
)
def test_a_long_text_that_is_not_there_is_not_sound(answer: Answer, why: str) -> None:
    assert defect(LongTask("Once upon a time", 1, tools=False), answer, 64) == why


def test_a_summary_is_scored_by_the_words_it_shares() -> None:
    reference = "The parser reads tokens and builds a syntax tree."
    assert score(reference, reference) == 1
    assert score(reference, "Bananas grow slowly.") == 0
    assert 0 < score(reference, "It builds a tree.") < 1
    assert score("修表的老人", "老人修表") > 0.5


def test_a_summary_is_of_decisions_in_their_order() -> None:
    suite = SummarySuite(Summary(documents=3, tokens=512))
    for task in next(suite.tasks(random.Random(0), RULER)):
        text, asked = task.prompt.split("\n\nSummary of the text above")
        made = [one for one in text.split("\n\n") if one.startswith("Decision ")]
        assert [one.split(":")[0] for one in made] == [f"Decision {n}" for n in range(1, 7)]
        assert made[0] in asked
        assert task.reference == " ".join(made[1:])
        assert len(task.prompt) / RULER.prose == pytest.approx(512, abs=250)


def test_a_summary_that_no_arm_can_write_decides_nothing() -> None:
    suite = SummarySuite(Summary())
    pairs = [
        Pair(task, "It is clear.", "It is clear.") for task in next(suite.tasks(random.Random(0), RULER))
    ]
    found = suite.judge(pairs, 0.05)
    assert found.checks[0].verdict is Verdict.INCONCLUSIVE
    assert found.notes == ["the baseline has 0%: it has little to lose here"]
