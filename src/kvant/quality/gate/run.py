"""One gate: the baseline answers, then the candidate, one engine at a time, then the verdicts.

A suite that is inconclusive is asked on, with new tasks, until it is decided or its looks are used up
(course.py). The candidate may also fail early: after a third and two thirds of the first look it is judged
with an error of `EARLY` (Haybittle 1971, Peto 1976), which leaves those of the looks nearly as they were.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kvant.errors import EngineError
from kvant.quality.gate.arm import Arm
from kvant.quality.gate.client import Client, Refused
from kvant.quality.gate.course import Course
from kvant.quality.gate.material import Ruler
from kvant.quality.gate.outcome import Outcome
from kvant.quality.gate.settings import Settings
from kvant.quality.gate.suites.base import Pair, Suite
from kvant.quality.gate.suites.registry import chosen
from kvant.quality.gate.verdict import Verdict, worst

EARLY = 0.001
PARTS = 3
"""Of the first look, after each of which the candidate may fail."""

Say = Callable[[str, int, int], None]
"""What is asked of whom, tasks done, tasks in all."""


def gate(baseline: Arm, candidate: Arm, settings: Settings, facts: dict[str, Any], say: Say) -> Outcome:
    """`EngineError` where the baseline fails; a candidate that fails has failed the gate."""
    say("baseline: starts", 0, 0)
    with baseline.running() as client:
        model, ruler = client.model, Ruler.of(client.length)
        courses = [Course.of(suite, settings, ruler) for suite in chosen(settings)]
        _baseline(client, courses, settings, say)
    _candidate(candidate, courses, settings, say)
    while left := _undecided(courses):
        say("baseline: starts", 0, 0)
        with baseline.running() as client:
            _baseline(client, left, settings, say)
        _candidate(candidate, left, settings, say)
    results = [one.result for one in courses if one.result]
    return Outcome(baseline.what, candidate.what, model, settings.seed, results, facts)


def _undecided(courses: Sequence[Course]) -> list[Course]:
    """Those to be asked on; none where one has failed, which decides the whole."""
    if any(one.verdict is Verdict.FAIL for one in courses):
        return []
    return [one for one in courses if one.asks_on()]


def _baseline(client: Client, courses: Sequence[Course], settings: Settings, say: Say) -> None:
    for course in courses:
        name, total = course.suite.name, len(course.batch)
        started, found = time.monotonic(), []
        try:
            for answer in _ask(client, course.suite, course.batch, settings.concurrency):
                found.append(answer)
                say(f"baseline: {name}", len(found), total)
        except EngineError as error:
            raise EngineError(f"{name}, baseline: {error}") from error
        course.before = found
        course.seconds = course.seconds[0] + time.monotonic() - started, course.seconds[1]


def _candidate(arm: Arm, courses: Sequence[Course], settings: Settings, say: Say) -> None:
    say("candidate: starts", 0, 0)
    try:
        with arm.running() as client:
            for course in courses:
                _judge(client, course, settings, say)
    except EngineError as error:
        for course in courses:
            course.failed(f"the candidate does not serve: {error}")


def _judge(client: Client, course: Course, settings: Settings, say: Say) -> None:
    suite, batch = course.suite, course.batch
    step = len(batch) if course.look else max(suite.fewest, -(-len(batch) // PARTS))
    started = time.monotonic()
    try:
        for start in range(0, len(batch), step):
            part = slice(start, start + step)
            answers = _ask(client, suite, batch[part], settings.concurrency)
            for task, before, after in zip(batch[part], course.before[part], answers, strict=True):
                course.pairs.append(Pair(task, before, after))
                say(f"candidate: {suite.name}", len(course.pairs), course.planned)
            last = len(course.pairs) == course.planned
            found = suite.judge(course.pairs, course.alpha if last else EARLY)
            verdict = worst(check.verdict for check in found.checks)
            if last or verdict is Verdict.FAIL:
                break
    except EngineError as error:
        course.failed(f"the candidate failed after {len(course.pairs)} of {course.planned} tasks: {error}")
        return
    early = f"failed early, after {len(course.pairs)} of {course.planned} tasks (error {EARLY:g})"
    course.seconds = course.seconds[0], course.seconds[1] + time.monotonic() - started
    course.judged(found, verdict, "" if last else early)


def _ask(client: Client, suite: Suite, tasks: Sequence[Any], concurrency: int) -> Iterator[Any]:
    """Answers in the order of the tasks."""
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            yield from pool.map(lambda task: suite.ask(client, task), tasks)
        except Refused as error:
            raise Refused(
                f"{error}; where the context is too short for it, lower {suite.sizes}, take shorter prompts "
                "if they are from a file, or serve a longer context"
            ) from error
