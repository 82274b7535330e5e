"""Decisions: nothing goes on without evidence, and what is wrong is named with its numbers."""

from __future__ import annotations

import random

from kvant.rollout import state as states
from kvant.rollout.decide import Decision, decide
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.state import State
from kvant.rollout.tally import Sums, Tally
from tests.rollout.conftest import quick

PLAN = quick()


def shadow(dwelt: float = 0.0) -> State:
    return states.dwell(states.start(State(), "low-bit", "salt", 0.0, "ann"), dwelt)


def compared(n: int, divergence: float = 0.004, agreement: float = 0.97) -> Sums:
    tally, draw = Tally(PLAN.limits), random.Random(1)
    for _ in range(n):
        tally.comparison(Comparison(0.0, divergence * draw.uniform(0.5, 1.5), agreement, 100))
    return tally.take()


def test_nothing_known_is_hold_and_says_what_is_missing():
    decision = decide(PLAN, shadow(), [{}])
    assert decision.verdict == "hold"
    assert decision.why[:2] == ("0 of 10 seconds in this phase", "0 of 10 requests compared")
    assert decision.why[2].startswith(
        "divergence: not shown yet to be good, not measured yet; e-value 1 of 20"
    )


def test_each_of_dwell_count_and_proof_alone_holds():
    good = compared(200)
    decision = decide(PLAN, shadow(10), [good])
    assert decision.verdict == "promote"
    assert decision.why[1] == "disagreement: good, 0.03 over 200"
    assert decide(PLAN, shadow(9), [good]).why == ("9 of 10 seconds in this phase",)
    assert "9 of 10 requests compared" in decide(PLAN, shadow(10), [compared(9)]).why
    uncertain = decide(PLAN, shadow(10), [compared(200, divergence=0.0099)])
    assert uncertain.verdict == "hold"
    assert [why.split(":")[0] for why in uncertain.why] == ["divergence"]
    assert decide(PLAN, states.pause(shadow(10), True, 1.0, "ann"), [good]).why == ("paused",)


def test_evidence_of_good_carries_over_phases_but_counts_do_not():
    canary = states.dwell(states.promote(shadow(), PLAN, 1.0, "ann", ""), 10)
    assert decide(PLAN, canary, [compared(200), {}]).why == ("0 of 10 requests compared",)
    assert decide(PLAN, canary, [compared(200), compared(10)]).verdict == "promote"


def test_a_rollback_names_the_quantity_and_its_numbers():
    decision = decide(PLAN, shadow(10), [compared(60, divergence=0.03)])
    assert decision.verdict == "rollback"
    assert "divergence: 0.0295 over 60; shown to be more than 0.01, e-value" in decision.why[0]
    assert "of 200" in decision.why[0]


def test_what_went_well_for_long_does_not_hide_what_goes_wrong_in_the_next_phase():
    canary = states.promote(shadow(), PLAN, 1.0, "ann", "")
    long_good = compared(4_000)
    decision = decide(PLAN, canary, [long_good, compared(60, divergence=0.03)])
    assert decision.verdict == "rollback"
    assert decision.why[0].startswith("divergence: 0.0295 over 60;"), (
        "figures are not those of what went wrong"
    )
    # Within the same phase it would have hidden it.
    together = compared(4_000)
    for name, value in compared(60, divergence=0.03).items():
        together = {**together, name: together.get(name, 0.0) + value}
    assert decide(PLAN, canary, [together, {}]).verdict == "hold"


def test_rates_are_held_against_the_baseline_not_against_a_figure():
    def failing(baseline: float, candidate: float) -> str:
        tally, draw = Tally(PLAN.limits), random.Random(2)
        for _ in range(600):
            tally.serving(Serving(CANDIDATE, 0.0, failed=draw.random() < candidate))
            for _ in range(5):
                tally.serving(Serving(BASELINE, 0.0, failed=draw.random() < baseline))
        return decide(PLAN, shadow(10), [tally.take()]).verdict

    assert failing(0.3, 0.3) == "hold"
    assert failing(0.001, 0.05) == "rollback"


def test_full_stays_full_unless_the_evidence_turns():
    full = shadow()
    for _ in range(3):
        full = states.promote(full, PLAN, 1.0, "ann", "")
    assert full.phase == "full"
    good = compared(200)
    assert decide(PLAN, full, [good, {}, {}, {}]) == Decision("hold", ())
    assert decide(PLAN, full, [good, {}, {}, compared(200, 0.05)]).verdict == "rollback"
