"""The breaker opens on rates, tries again with doubled patience, and closes on good answers alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvant.gateway.answers import breaker
from kvant.gateway.answers.breaker import Outcome, State
from kvant.gateway.answers.fuse import Fuse
from kvant.gateway.answers.settings import Breaker
from kvant.gateway.call import Call, Served
from kvant.gateway.cast import Always
from kvant.rollout.evidence import BASELINE, CANDIDATE

SET = Breaker(window=60, minimum=20, errors=0.25, trips=0.05, retry=10, longest_retry=35, probes=3)
GOOD, FAILED, TRIPPED, NEITHER = Outcome


def after(outcomes: list[Outcome], state: State | None = None, now: float = 0.0, usual: float = 0.0) -> State:
    state = state or State()
    for n, outcome in enumerate(outcomes):
        state = breaker.ended(state, f"c{n}", outcome, now, SET, usual)
    return state


def test_it_opens_on_a_rate_and_not_on_a_few_calls() -> None:
    assert after([FAILED] * 19).phase(0) == "closed"
    assert after([FAILED] * 20).phase(0) == "open"
    assert after([GOOD] * 15 + [FAILED] * 5).phase(0) == "closed"
    assert after([GOOD] * 14 + [FAILED] * 6).why == "failed"
    assert after([GOOD] * 18 + [TRIPPED] * 2).why == "tripped"
    assert after([GOOD] * 19 + [TRIPPED]).phase(0) == "closed"


def test_what_is_no_fault_of_the_arm_does_not_count() -> None:
    assert after([NEITHER] * 1000) == State()
    assert after([NEITHER] * 100 + [FAILED] * 19).phase(0) == "closed"


def test_a_model_that_loops_by_itself_is_no_fault_of_its_cache() -> None:
    outcomes = [GOOD] * 15 + [TRIPPED] * 5
    assert after(outcomes, usual=0.0).phase(0) == "open"
    assert after(outcomes, usual=0.3).phase(0) == "closed"


def test_old_answers_leave_the_window() -> None:
    state = after([FAILED] * 19)
    assert after([FAILED], state, now=30.0).phase(30) == "open"
    assert after([FAILED], state, now=61.0).phase(61) == "closed"


def probe(state: State, name: str, outcome: Outcome, now: float) -> State:
    state, admitted = breaker.admit(state, name, now, SET)
    assert admitted
    return breaker.ended(state, name, outcome, now, SET)


def test_probes_close_it_or_double_the_wait() -> None:
    state = after([FAILED] * 20)
    assert breaker.admit(state, "x", 9.9, SET)[1] is False
    now, waits = 10.0, []
    for n in range(4):
        assert state.phase(now) == "half-open"
        state = probe(state, f"p{n}", FAILED if n % 2 else TRIPPED, now)
        assert state.until is not None
        waits.append(state.until - now)
        now = state.until
    assert waits == [20, 35, 35, 35]
    for n in range(3):
        assert state.phase(now) == "half-open"
        state = probe(state, f"q{n}", GOOD, now)
    assert state == State()


def test_few_probes_at_a_time_and_only_they_count() -> None:
    state = after([FAILED] * 20)
    admitted = []
    for n in range(6):
        state, let = breaker.admit(state, f"p{n}", 10.0, SET)
        admitted.append(let)
    assert admitted == [True] * 3 + [False] * 3
    assert breaker.ended(state, "older", FAILED, 10.0, SET) == state
    state = breaker.ended(state, "p0", NEITHER, 10.0, SET)
    assert state.phase(10) == "half-open"
    state, let = breaker.admit(state, "p6", 10.0, SET)
    assert let, "a client that left makes room for another probe"


@pytest.mark.parametrize(("began", "seconds"), [(False, breaker.QUEUED), (True, breaker.LEASE)])
def test_a_probe_that_never_came_back_does_not_bar_the_way(began: bool, seconds: float) -> None:
    """A call may be refused while it waits for a place on the arm: then nobody says how it ended."""
    state = after([FAILED] * 20)
    for n in range(3):
        state, _ = breaker.admit(state, f"p{n}", 10.0, SET)
        state = breaker.began(state, f"p{n}", 10.0) if began else state
    assert breaker.began(state, "another", 10.0) == state
    assert breaker.admit(state, "x", 9.9 + seconds, SET)[1] is False
    assert breaker.admit(state, "x", 10.0 + seconds, SET)[1] is True


@given(st.lists(st.tuples(st.sampled_from([*Outcome]), st.floats(0, 30), st.booleans()), max_size=120))
@settings(max_examples=50, deadline=None)
def test_whatever_happens_it_is_bounded_and_never_stuck(events: list[tuple[Outcome, float, bool]]) -> None:
    state, now = State(), 0.0
    for n, (outcome, passed, ends) in enumerate(events):
        now += passed
        state, let = breaker.admit(state, f"c{n}", now, SET)
        if let and ends:
            state = breaker.ended(state, f"c{n}", outcome, now, SET)
        assert len(state.slices) <= breaker.SLICES
        assert len(state.probes) <= SET.probes
        assert state.until is None or state.until <= now + SET.longest_retry
    assert breaker.admit(state, "at last", now + breaker.LEASE + SET.longest_retry, SET)[1]


def served(call: Call, arm: str, **fields: Any) -> Served:
    return Served(call, arm, "", fields.pop("status", 200), 1.0, **fields)


@pytest.mark.parametrize("arm", [CANDIDATE, BASELINE])
def test_while_it_is_open_the_baseline_answers(arm: str) -> None:
    now = [0.0]
    fuse = Fuse(Always(arm), SET, lambda: now[0])
    call = Call("c", "/v1/completions", {}, "", "")
    for _ in range(20):
        assert fuse.choose(call) == arm
        fuse.ended(served(call, arm, status=502, error="unreachable"))
    assert fuse.choose(call) == BASELINE
    assert fuse.phase(CANDIDATE) == ("open" if arm == CANDIDATE else "closed")
    now[0] = 10.0
    assert fuse.choose(call) == arm


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, GOOD), ({"tripped": "repetition"}, TRIPPED), ({"error": "timeout"}, FAILED),
        ({"status": 499, "error": "cancelled"}, NEITHER), ({"status": 400, "error": "refused"}, NEITHER),
        ({"status": 503, "error": "draining"}, NEITHER), ({"status": 500}, FAILED),
        ({"status": 502, "error": "unreachable"}, FAILED), ({"absent": True}, GOOD),
        ({"status": 502, "error": "unreachable", "absent": True}, NEITHER),
    ],
)  # fmt: skip
def test_how_a_call_ended(fields: dict[str, Any], outcome: Outcome) -> None:
    from kvant.gateway.answers import fuse

    assert fuse.outcome(served(Call("c", "/v1/completions", {}, "", ""), CANDIDATE, **fields)) is outcome
