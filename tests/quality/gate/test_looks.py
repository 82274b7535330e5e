"""An inconclusive suite is asked on with new tasks; alpha is split over the looks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kvant.errors import EngineError
from kvant.quality.gate import stats
from kvant.quality.gate.arm import Arm
from kvant.quality.gate.course import Course
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Outcome
from kvant.quality.gate.run import gate
from kvant.quality.gate.settings import Needle, Settings
from kvant.quality.gate.suites.registry import chosen
from kvant.quality.gate.verdict import Verdict
from tests.launch.stub import listening

TASKS = 12
SETTINGS = Settings(
    suites=("needle",),
    concurrency=1,
    needle=Needle(lengths=(256,), depths=(0.0, 0.5, 1.0), keys=(2,), trials=4, loss=0.35),
)
ASKED = re.compile(r"The magic number of (\w+) is$")


class Reader:
    """Finds every needle but those whose number `forgets` names; counts what it was asked."""

    def __init__(self, forgets: Callable[[int], bool] = lambda n: False) -> None:
        self.forgets = forgets
        self.prompts: list[str] = []
        self.reads, self.longest = len, 10**9
        """What of a prompt is counted, and characters that are refused above."""

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "m", "object": "model"}]})

    async def complete(self, request: Request) -> Response:
        prompt = (await request.json())["prompt"]
        if len(prompt) > self.longest:
            return JSONResponse({"error": {"message": f"{len(prompt)} is too long"}}, 400)
        text = ""
        if asked := ASKED.search(prompt):
            (number,) = re.findall(rf"The magic number of {asked[1]} is (\d+)", prompt)
            text = " 1." if self.forgets(len(self.prompts)) else f" {number}."
            self.prompts.append(prompt)
        usage = {"prompt_tokens": self.reads(prompt) // 4, "completion_tokens": 1, "total_tokens": 0}
        choices = [{"index": 0, "text": text, "finish_reason": "stop"}]
        return JSONResponse({"id": "1", "object": "text_completion", "choices": choices, "usage": usage})

    @contextmanager
    def listening(self) -> Iterator[str]:
        routes = [
            Route("/v1/models", self.models),
            Route("/v1/completions", self.complete, methods=["POST"]),
        ]
        with listening(Starlette(routes=routes)) as url:
            yield url


def gated(baseline: Reader, candidate: Reader, **changes: object) -> Outcome:
    with baseline.listening() as before, candidate.listening() as after:
        arms = [Arm(url, None, 1024) for url in (before, after)]
        return gate(arms[0], arms[1], SETTINGS.model_copy(update=changes), {}, lambda *_: None)


def slips(n: int) -> bool:
    return n in (1, 5)


def test_what_two_slips_left_open_is_decided_by_new_tasks() -> None:
    baseline, candidate = Reader(), Reader(slips)
    outcome = gated(baseline, candidate)
    (result,) = outcome.results
    assert outcome.verdict is Verdict.PASS
    assert result.n == result.planned > TASKS
    assert result.n % TASKS == 0
    looks = ", ".join(str(n) for n in range(TASKS, result.n, TASKS))
    assert result.reason == f"inconclusive after {looks} tasks, asked on"
    assert "2 lost" in result.judgement.checks[0].method
    assert baseline.prompts == candidate.prompts
    assert len(set(candidate.prompts)) == result.n


def test_a_server_that_cuts_prompts_is_named() -> None:
    baseline = Reader()
    baseline.reads = lambda prompt: min(len(prompt), 600)
    with pytest.raises(EngineError, match=r"needle, baseline: http://127.*cuts prompts silently"):
        gated(baseline, Reader())


def test_what_is_too_long_names_the_setting_to_lower() -> None:
    baseline = Reader()
    baseline.longest = 6_000  # the sample that tokens are counted in
    long = SETTINGS.needle.model_copy(update={"lengths": (4096,)})
    with pytest.raises(EngineError, match=r"is too long.*lower needle\.lengths"):
        gated(baseline, Reader(), needle=long)


def test_where_both_are_wrong_the_report_shows_it() -> None:
    (result,) = gated(Reader(lambda n: True), Reader(lambda n: True), looks=1).results
    shown = result.judgement.examples
    assert shown
    assert all(one.where.startswith("both are wrong; 256 tokens") for one in shown)
    assert {one.baseline for one in shown} == {" 1."}
    (result,) = gated(Reader(), Reader(), looks=1).results
    assert not result.judgement.examples


def test_one_look_leaves_it_open() -> None:
    candidate = Reader(slips)
    outcome = gated(Reader(), candidate, looks=1)
    assert (outcome.verdict, len(candidate.prompts)) == (Verdict.INCONCLUSIVE, TASKS)


def test_what_stays_between_is_inconclusive_after_the_last_look() -> None:
    """A loss of one in three, at a margin of .35."""
    outcome = gated(Reader(), Reader(lambda n: n % 3 == 0))
    assert (outcome.verdict, outcome.results[0].n) == (Verdict.INCONCLUSIVE, 4 * TASKS)


def test_a_failure_is_not_asked_on() -> None:
    candidate = Reader(lambda n: True)
    outcome = gated(Reader(), candidate, needle=SETTINGS.needle.model_copy(update={"loss": 0.2}))
    assert (outcome.verdict, len(candidate.prompts)) == (Verdict.FAIL, TASKS)


@pytest.mark.parametrize(("prompts", "looks"), [(5, 1), (20, 3), (99, 4)])
def test_alpha_is_split_over_the_looks_that_a_file_has_prompts_for(
    tmp_path: Path, prompts: int, looks: int
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"p {n}"}) + "\n" for n in range(prompts)))
    settings = Settings.model_validate({"suites": ["golden"], "golden": {"file": str(file), "prompts": 8}})
    (suite,) = chosen(settings)
    course = Course.of(suite, settings, Ruler(4.0, 3.0))
    assert course.alpha == settings.alpha / looks
    asked = [one.prompt for batch in course.batches for one in batch]
    assert len(set(asked)) == len(asked) == min(prompts, 4 * 8)


def test_a_loss_at_the_margin_passes_no_more_often_than_alpha(rng: np.random.Generator) -> None:
    alpha, looks, size, margin, times = 0.05, 4, 40, 0.12, 1_000
    passed = 0
    for _ in range(times):
        lost = np.cumsum(rng.binomial(size, margin, looks))
        pairs = ([(True, False)] * k + [(True, True)] * (n * size - k) for n, k in enumerate(lost, 1))
        passed += any(stats.gain(one, alpha / looks).low >= -margin for one in pairs)
    assert passed / times <= alpha
