"""The state machine: what may follow what."""

from __future__ import annotations

import json

import pytest

from kvant.errors import RolloutError
from kvant.rollout import state as states
from kvant.rollout.plan import Plan
from kvant.rollout.state import REMEMBERED, State

PLAN = Plan()


def started() -> State:
    return states.start(State(), "low-bit", "salt", 1.0, "ann")


def promoted(state: State, times: int) -> State:
    for _ in range(times):
        state = states.promote(state, PLAN, 2.0, "ann", "test")
    return state


def test_the_way_up():
    state, way = started(), []
    while state.phase != "full":
        way.append((state.phase, state.weight, state.stage))
        state = promoted(state, 1)
    assert way == [
        ("shadow", 0.0, 0), ("canary", 0.01, 1), ("canary", 0.05, 2), ("canary", 0.25, 3), ("canary", 0.5, 4)
    ]  # fmt: skip
    assert (state.weight, state.stage, state.generation) == (1.0, 5, 1)
    assert [entry.phase for entry in state.history] == ["shadow", *["canary"] * 4, "full"]


def test_rolled_back_is_for_good_until_a_start_with_a_new_salt():
    state = states.roll_back(promoted(started(), 2), 3.0, "evidence", "worse")
    assert (state.phase, state.weight, state.reason) == ("rolled_back", 0.0, "worse")
    with pytest.raises(RolloutError, match="promote: nothing comes after phase rolled_back"):
        promoted(state, 1)
    with pytest.raises(RolloutError, match="no traffic in phase rolled_back"):
        states.roll_back(state, 4.0, "ann", "again")
    again = states.start(state, "low-bit", "other", 5.0, "ann")
    assert (again.phase, again.weight, again.generation, again.stage) == ("shadow", 0.0, 2, 0)
    assert again.salt == "other"


def test_a_start_under_way_is_refused_but_not_of_another_candidate():
    with pytest.raises(RolloutError, match="already in phase shadow"):
        states.start(started(), "low-bit", "salt", 2.0, "ann")
    other = states.start(promoted(started(), 3), "another", "salt", 2.0, "ann")
    assert (other.candidate, other.weight, other.generation) == ("another", 0.0, 2)


def test_a_pause_stops_dwell_and_keeps_it():
    state = states.dwell(started(), 7.0)
    paused = states.pause(state, True, 2.0, "ann")
    assert states.dwell(paused, 5.0) is paused
    assert states.pause(paused, False, 3.0, "ann").dwelt == 7.0
    with pytest.raises(RolloutError, match="already paused"):
        states.pause(paused, True, 3.0, "ann")
    with pytest.raises(RolloutError, match="not paused"):
        states.pause(state, False, 3.0, "ann")
    with pytest.raises(RolloutError, match="nothing is under way in phase idle"):
        states.pause(State(), True, 3.0, "ann")


def test_time_does_not_run_backwards_and_every_change_is_a_new_version():
    state = started()
    assert states.dwell(state, -3.0) is state
    later = states.dwell(state, 3.0)
    assert (later.version, later.dwelt) == (state.version + 1, 3.0)
    assert promoted(later, 1).dwelt == 0.0


def test_a_state_survives_json_and_remembers_only_so_much():
    state = started()
    for n in range(REMEMBERED + 20):
        state = states.pause(state, n % 2 == 0, float(n), "ann")
    assert len(state.history) == REMEMBERED
    assert State.of(json.loads(json.dumps(state.plain()))) == state


def test_a_plan_that_changed_under_way_goes_on_from_the_weight():
    plan = PLAN.model_copy(update={"canary": PLAN.canary[:1] + PLAN.canary[2:]})  # 0.05 is gone
    state = promoted(started(), 2)
    assert plan.at(state.weight).weight == 0.01
    assert states.promote(state, plan, 1.0, "ann", "").weight == 0.25
