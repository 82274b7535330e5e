"""Levels, verdicts over rounds, and the knee."""

from __future__ import annotations

import pytest

from kvant.launch import speed
from kvant.launch.result import Verdict
from kvant.launch.settings import Speed
from tests.launch.stub import Stub, serving


@pytest.mark.parametrize(
    ("most", "found"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (16, [1, 2, 4, 8, 16])]
)
def test_levels_end_at_the_most(most: int, found: list[int]) -> None:
    assert list(speed.levels(most)) == found


def test_some_rounds_beyond_a_limit_are_no_verdict() -> None:
    assert speed.at_most([0.1, 0.2], 0.2) is Verdict.PASS
    assert speed.at_most([0.3, 0.4], 0.2) is Verdict.FAIL
    assert speed.at_most([0.1, 0.4], 0.2) is Verdict.INCONCLUSIVE
    assert speed.at_most([], 0.2) is Verdict.INCONCLUSIVE


def turns(throughput: float, tpot: float) -> list[dict[str, float | None]]:
    return [{"ttft": 0.1, "tpot": tpot, "throughput": throughput, "decode_throughput": None}]


def test_times_beyond_the_knee_are_told_and_not_judged() -> None:
    measured = {1: turns(10, 0.1), 2: turns(19, 0.1), 4: turns(19.5, 9.0)}
    step = list(speed._items(measured, Speed(tpot=0.2)))
    assert {item.verdict for item in step} == {Verdict.PASS}
    slow = list(speed._items({1: turns(10, 0.1), 2: turns(19, 9.0)}, Speed(tpot=0.2)))
    assert [item.name for item in slow if item.verdict is Verdict.FAIL] == ["per token, 2 at once"]


def test_a_least_throughput_is_held_at_the_best_number_of_streams() -> None:
    measured = {1: turns(10, 0.1), 2: turns(19, 0.1)}
    assert list(speed._items(measured, Speed(throughput=18)))[-1].verdict is Verdict.PASS
    assert list(speed._items(measured, Speed(throughput=20)))[-1].verdict is Verdict.FAIL


def test_over_real_http() -> None:
    with serving(Stub()) as service:
        step = speed.run(service, Speed(prompt=16, answer=8, rounds=2), 2, lambda what: None)
    assert step.verdict is Verdict.PASS, step.items
    assert step.facts["1"]["ttft"]["median"] > 0
