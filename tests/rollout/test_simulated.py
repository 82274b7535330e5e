"""Whole rollouts in virtual time: sound candidates reach full, faults do not reach users."""

from __future__ import annotations

import random

import pytest

from kvant.rollout.decide import decide
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.plan import Plan
from kvant.rollout.state import State, start
from kvant.rollout.tally import Tally, plus
from tests.rollout.simulate import Behaviour, Outcome, Traffic, simulate

FAULTS = {
    # Mean KL as measured for each fault of `lossless` on SmolLM2 (docs/gate.md).
    "seed of another rotation in one layer": Behaviour(divergence=0.139, agreement=0.85),
    "no transform": Behaviour(divergence=0.166, agreement=0.83),
    "no sinks": Behaviour(divergence=0.0164, agreement=0.94),
    "one level with the wrong sign": Behaviour(divergence=0.0401, agreement=0.92),
    "one layer at one bit": Behaviour(divergence=0.0350, agreement=0.92),
    "recipe of another model": Behaviour(divergence=1.37, agreement=0.45),
}
RARE = Behaviour(degenerate=0.055)
BRISK = Traffic(per_second=4.0)


def outcomes(candidate: Behaviour, runs: int, traffic: Traffic = BRISK) -> list[Outcome]:
    return [simulate(Plan(), candidate, traffic, seed) for seed in range(runs)]


def healthy(runs: int) -> None:
    for found in outcomes(Behaviour(), runs):
        assert found.phase == "full", found.reason
        assert found.seconds >= 3_600


def test_a_sound_candidate_reaches_full():
    healthy(3)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_fifty_sound_candidates_reach_full_and_none_is_rolled_back():
    healthy(50)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_rolled_back_in_shadow_within_200_comparisons(fault: str):
    for found in outcomes(FAULTS[fault], 12):
        assert found.phase == "rolled_back"
        assert found.reason.startswith(("divergence", "disagreement"))
        assert found.compared <= 200
        assert found.served == 0


def test_one_answer_in_twenty_degenerate_is_rolled_back_before_a_user_sees_one():
    """200 comparisons hold about 11 such answers, few enough that chance has a say in when."""
    found = outcomes(RARE, 20)
    assert {one.phase for one in found} == {"rolled_back"}
    assert all(one.reason.startswith("degeneration") for one in found)
    assert max(one.served / one.requests for one in found) == 0
    compared = sorted(one.compared for one in found)
    assert compared[10] <= 150
    assert compared[-1] <= 400


@pytest.mark.parametrize(
    ("candidate", "named", "share"),
    [
        (Behaviour(slowness=1.5), ("first_token", "per_token"), 0.02),
        (Behaviour(failed=0.02), ("failures",), 0.1),
    ],
)
def test_slow_and_failing_candidates_are_rolled_back_while_they_serve_few(
    candidate: Behaviour, named: tuple[str, ...], share: float
):
    for found in outcomes(candidate, 3):
        assert found.phase == "rolled_back"
        assert found.reason.startswith(named)
        assert found.served < share * found.requests


def test_a_candidate_whose_texts_cannot_be_scored_is_rolled_back_in_shadow():
    for found in outcomes(Behaviour(scores=False), 12):
        assert found.phase == "rolled_back"
        assert found.reason.startswith("failures")
        assert found.compared <= 200
        assert found.served == 0


def test_a_simulation_is_repeated_by_its_seed():
    assert len({outcomes(RARE, 1)[0] for _ in range(2)}) == 1


def test_a_candidate_that_is_faster_and_better_is_not_held_back():
    assert outcomes(Behaviour(slowness=0.6, degenerate=0.0, failed=0.0), 1)[0].phase == "full"


def false_alarms(runs: int, requests: int) -> int:
    """Rollbacks of candidates that are exactly as bad as the limits allow, looked at after every tenth
    request."""
    plan, draw, alarms = Plan(), random.Random(11), 0
    state = start(State(), "low-bit", "salt", 0.0, "test")
    limits = plan.limits
    for _ in range(runs):
        tally, sums = Tally(limits), {}
        for n in range(requests):
            tally.comparison(
                Comparison(
                    0.0,
                    draw.choice((0.0, 2 * limits.divergence.rollback)),
                    1 - draw.choice((0.0, 2 * limits.disagreement.rollback)),
                    100,
                )
            )
            for arm, worse in ((BASELINE, 0), (BASELINE, 0), (CANDIDATE, 1)):
                tally.serving(
                    Serving(
                        arm,
                        0.0,
                        failed=draw.random() < 0.01 + worse * limits.failures.rollback,
                        degenerate=draw.random() < 0.02 + worse * limits.degeneration.rollback,
                        first_token=draw.lognormvariate(0, 0.5),
                        per_token=draw.lognormvariate(0, 0.5),
                    )
                )
            if n % 10 == 9:
                sums = plus(sums, tally.take())
                if decide(plan, state, [sums]).verdict == "rollback":
                    alarms += 1
                    break
    return alarms


def test_false_alarms_at_the_very_limits_are_fewer_than_alpha():
    assert false_alarms(runs=40, requests=200) <= 5  # P(more) < 0.02 were the rate alpha itself


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_two_thousand_rollouts_at_the_very_limits_alarm_no_more_often_than_alpha():
    assert false_alarms(runs=2_000, requests=500) / 2_000 <= Plan().alpha
