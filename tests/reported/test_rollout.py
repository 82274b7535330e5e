"""Reported failures of rollouts: H5-54 (health is green, answers are not), H5-55 (canaries in a row)."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from kvant.rollout.controller import Controller
from kvant.rollout.evidence import BASELINE, CANDIDATE
from kvant.rollout.plan import Plan, Step
from kvant.rollout.stores import open_store
from tests.rollout.simulate import Behaviour, Traffic, simulate

# H5-54

ONE_IN_TWENTY = Behaviour(degenerate=0.055)


def blind() -> Plan:
    """What health checks see: nothing is compared, answers are not read."""
    limits = {
        name: {"rollback": 0.49, "promote": 0.49} for name in ("divergence", "disagreement", "degeneration")
    }
    health = ("failures", "first_token", "per_token")
    steps = [
        step.model_copy(update={"compared": 0, "proof": health if step.weight == 0.5 else ()})
        for step in Plan().canary
    ]
    shadow = Step(weight=0.0, dwell=60, compared=0, proof=())
    return Plan.model_validate({"shadow": shadow, "canary": steps, "limits": limits})


def test_h5_54_health_alone_lets_it_through():
    assert simulate(blind(), ONE_IN_TWENTY, Traffic(per_second=4.0), 1).phase == "full"


def test_h5_54_answers_roll_it_back_with_evidence_before_a_user_sees_one():
    for seed in range(10, 15):
        found = simulate(Plan(), ONE_IN_TWENTY, Traffic(), seed)
        assert (found.phase, found.served) == ("rolled_back", 0)
        assert found.compared <= 400
        assert re.match(r"degeneration: 0\.\d+ over \d+, baseline 0[.\d]* over \d+; shown", found.reason)


# H5-55

USERS = [f"session-{n}" for n in range(2_000)]
TWENTY, HALF = 0.2, 0.5
PLAN = Plan(
    canary=tuple(Step(weight=weight, dwell=600, compared=50) for weight in (TWENTY, HALF)),
)


def share(controller: Controller) -> float:
    """Of 2,000 sessions; each asks twice, as over a connection that is used again."""
    first = [controller.choose(user) for user in USERS]
    assert [controller.choose(user) for user in USERS] == first
    assert set(first) <= {BASELINE, CANDIDATE}
    return first.count(CANDIDATE) / len(USERS)


def close_to(weight: float) -> object:
    return pytest.approx(weight, abs=3 * math.sqrt(weight * (1 - weight) / len(USERS)) + 1e-12)


def test_h5_55_canaries_in_a_row_leave_nothing_behind(tmp_path: Path):
    file = str(tmp_path / "rollout.db")
    stores = []

    def gateway(candidate: str) -> Controller:
        stores.append(open_store(file))
        return Controller(PLAN, stores[-1], candidate)

    second, third = gateway("v2"), gateway("v3")

    def everywhere() -> tuple[float, float]:
        second.tick()
        third.tick()
        return share(second), share(third)

    def to(controller: Controller, weight: float) -> None:
        controller.command("start", "operator")
        while controller.status()["weight"] < weight:
            controller.command("promote", "operator")

    assert everywhere() == (0, 0)
    to(second, TWENTY)
    assert everywhere() == (close_to(TWENTY), 0)
    second.command("rollback", "operator")
    assert everywhere() == (0, 0)
    to(third, TWENTY)
    assert everywhere() == (0, close_to(TWENTY))
    third.command("rollback", "operator")
    assert everywhere() == (0, 0)
    second, third = gateway("v2"), gateway("v3")  # the restart changes nothing
    assert everywhere() == (0, 0)
    to(third, HALF)
    assert everywhere() == (0, close_to(HALF))
    before = [third.choose(user) for user in USERS]
    third = gateway("v3")
    assert [third.choose(user) for user in USERS] == before
    third.command("promote", "operator")
    assert everywhere() == (0, 1)
    third.command("rollback", "operator")
    assert everywhere() == (0, 0)
    for store in stores:
        store.close()
