"""The plan is read as strictly as every setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from kvant.errors import CalibrationError
from kvant.recipes import strict
from kvant.rollout.decide import SHARES
from kvant.rollout.plan import QUANTITIES, Limits, Plan


def test_the_default_goes_up_in_steps_and_ends_with_everything_shown():
    plan = Plan()
    assert [step.weight for step in plan.canary] == [0.01, 0.05, 0.25, 0.5]
    assert [plan.after(weight) for weight in (0, 0.01, 0.05, 0.25, 0.5)] == [0.01, 0.05, 0.25, 0.5, 1.0]
    assert set(plan.canary[-1].proof) == set(QUANTITIES)
    assert plan.at(0.0) is plan.shadow


def test_quantities_have_limits_and_shares_that_make_one():
    assert set(Limits.model_fields) == set(QUANTITIES) == set(SHARES)
    assert sum(SHARES.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("alpa: 0.1", "2: alpa: unknown field; did you mean alpha?"),
        ("alpha: 0", "2: alpha: 0 must be at least 1e-06"),
        ("canary: [{weight: 0.5, dwell: 1, compared: 1}, {weight: 0.5, dwell: 1, compared: 1}]", "2: canary"),
        ("canary: [{weight: 1.0, dwell: 1, compared: 1}]", "must be less than 1"),
        ("shadow: {weight: 0.1, dwell: 1, compared: 1}", "the candidate answers nobody there"),
        ("shadow: {weight: 0.0, dwell: 1, compared: 1, proof: [divergance]}", "'divergance' is not"),
        ("limits: {divergence: {rollback: 0.01, promote: 0.02}}", "promote must not be above rollback"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, complaint: str):
    file = tmp_path / "plan.yaml"
    file.write_text(f"# a plan\n{text}\n")
    with pytest.raises(CalibrationError) as refused:
        strict.load(file, Plan)
    assert f"{file}:" in str(refused.value)
    assert complaint in str(refused.value)


def test_a_plan_without_canary_goes_from_shadow_to_full():
    assert Plan(canary=()).after(0.0) == 1.0


def test_nothing_is_converted():
    with pytest.raises(ValidationError):
        Plan.model_validate({"alpha": "0.05"})
