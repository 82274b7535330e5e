"""One gate: the baseline answers all tasks, then the candidate, one engine at a time, then the verdicts.

The candidate may fail early: after a third and two thirds of a suite it is judged with an error of `EARLY`
(Haybittle 1971, Peto 1976), which leaves that of the last look nearly as it was. It never passes early.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kvant.errors import ConfigError, EngineError
from kvant.quality.gate.arm import Arm
from kvant.quality.gate.client import Client
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Outcome, Result
from kvant.quality.gate.settings import Settings
from kvant.quality.gate.suites.base import Judgement, Pair, Suite
from kvant.quality.gate.suites.registry import chosen
from kvant.quality.gate.verdict import Verdict, worst

EARLY = 0.001
LOOKS = 3

Say = Callable[[str, int, int], None]
"""What is asked of whom, tasks done, tasks in all."""


@dataclass(frozen=True)
class Asked:
    """A suite whose tasks the baseline has answered."""

    suite: Suite
    tasks: Sequence[Any]
    answers: Sequence[Any]
    seconds: float


def gate(baseline: Arm, candidate: Arm, settings: Settings, facts: dict[str, Any], say: Say) -> Outcome:
    """`EngineError` where the baseline fails; a candidate that fails has failed the gate."""
    with baseline.running() as client:
        model = client.model
        asked = list(_baseline(client, settings, say))
    try:
        with candidate.running() as client:
            results = [_candidate(client, one, settings, say) for one in asked]
    except EngineError as error:
        reason = f"the candidate does not serve: {error}"
        results = [_failed(one, reason) for one in asked]
    return Outcome(baseline.what, candidate.what, model, settings.seed, results, facts)


def _baseline(client: Client, settings: Settings, say: Say) -> Iterator[Asked]:
    ruler = Ruler.of(client.length)
    for suite in chosen(settings):
        tasks = suite.tasks(random.Random(f"{suite.name} {settings.seed}"), ruler)
        if not tasks:
            raise ConfigError(f"{suite.name}: its file holds no task with an expected answer")
        started = time.monotonic()
        found = []
        try:
            for answer in _ask(client, suite, tasks, settings.concurrency):
                found.append(answer)
                say(f"baseline: {suite.name}", len(found), len(tasks))
        except EngineError as error:
            raise EngineError(f"{suite.name}, baseline: {error}") from error
        yield Asked(suite, tasks, found, time.monotonic() - started)


def _candidate(client: Client, asked: Asked, settings: Settings, say: Say) -> Result:
    suite, planned = asked.suite, len(asked.tasks)
    step = max(suite.fewest, -(-planned // LOOKS))
    pairs: list[Pair] = []
    started = time.monotonic()
    try:
        for start in range(0, planned, step):
            part = slice(start, start + step)
            answers = _ask(client, suite, asked.tasks[part], settings.concurrency)
            for task, before, after in zip(asked.tasks[part], asked.answers[part], answers, strict=True):
                pairs.append(Pair(task, before, after))
                say(f"candidate: {suite.name}", len(pairs), planned)
            last = len(pairs) == planned
            found = suite.judge(pairs, settings.alpha if last else EARLY)
            verdict = worst(check.verdict for check in found.checks)
            if last or verdict is Verdict.FAIL:
                break
    except EngineError as error:
        return _failed(asked, f"the candidate failed after {len(pairs)} of {planned} tasks: {error}")
    reason = "" if last else f"failed early, after {len(pairs)} of {planned} tasks (error {EARLY:g})"
    seconds = (asked.seconds, time.monotonic() - started)
    return Result(suite.name, verdict, len(pairs), planned, seconds, found, reason)


def _ask(client: Client, suite: Suite, tasks: Sequence[Any], concurrency: int) -> Iterator[Any]:
    """Answers in the order of the tasks."""
    with ThreadPoolExecutor(concurrency) as pool:
        yield from pool.map(lambda task: suite.ask(client, task), tasks)


def _failed(asked: Asked, reason: str) -> Result:
    none = Judgement(())
    return Result(asked.suite.name, Verdict.FAIL, 0, len(asked.tasks), (asked.seconds, 0.0), none, reason)
