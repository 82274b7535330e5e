"""A controller over real stores: effect at once, time that cannot be cheated, and what a lost store does."""

from __future__ import annotations

import random
import threading
import time

import pytest

from kvant.errors import RolloutError, StoreError
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.keeper import Keeper
from kvant.rollout.stores import Store
from kvant.rollout.stores.memory import Memory
from tests.rollout.conftest import Clock, Opener, RedisServer, quick, until

USERS = [f"user-{n}" for n in range(400)]


def controller(store: Store, clock: Clock, candidate: str = "low-bit") -> Controller:
    return Controller(quick(), store, candidate, monotonic=clock, wall=lambda: 1e9)


def compare(one: Controller, n: int, divergence: float = 0.003) -> None:
    for _ in range(n):
        one.observe(Comparison(0.0, divergence, 0.98, 100))


def pass_seconds(one: Controller, clock: Clock, seconds: int) -> None:
    for _ in range(seconds):
        clock.now += 1
        one.tick()


def share(one: Controller) -> float:
    return sum(one.choose(user) == CANDIDATE for user in USERS) / len(USERS)


def at_half(store: Store, clock: Clock) -> Controller:
    one = controller(store, clock)
    one.command("start", "ann")
    one.command("promote", "ann")
    one.command("promote", "ann")
    return one


def test_before_a_start_and_in_shadow_all_go_to_the_baseline(store: Store):
    one = controller(store, Clock())
    assert one.status()["phase"] == "idle"
    assert {one.choose(user) for user in USERS} == {BASELINE}
    assert one.command("start", "ann")["phase"] == "shadow"
    assert {one.choose(user) for user in USERS} == {BASELINE}


def test_evidence_and_time_together_promote_to_full(store: Store):
    clock = Clock()
    one = controller(store, clock)
    one.command("start", "ann")
    for weight in (0.05, 0.5, 1.0):
        compare(one, 100)
        pass_seconds(one, clock, 9)
        assert one.status()["weight"] < weight
        assert one.status()["why"][0] == "9 of 10 seconds in this phase"
        pass_seconds(one, clock, 1)
        assert one.status()["weight"] == weight
    assert {one.choose(user) for user in USERS} == {CANDIDATE}
    assert [entry["who"] for entry in one.status()["history"]] == ["ann", *["evidence"] * 3]


def test_a_rollback_by_hand_takes_effect_for_the_next_request(store: Store):
    one = at_half(store, Clock())
    assert share(one) == pytest.approx(0.5, abs=0.12)
    status = one.command("rollback", "ann")
    assert (status["phase"], status["weight"]) == ("rolled_back", 0.0)
    assert share(one) == 0
    again = controller(store, Clock())
    assert (again.status()["phase"], share(again)) == ("rolled_back", 0)


def test_bad_evidence_rolls_back_at_the_next_tick_and_stays(store: Store):
    clock = Clock()
    one = at_half(store, clock)
    compare(one, 60, divergence=0.05)
    one.tick()
    assert share(one) == 0
    assert one.status()["reason"].startswith("divergence: 0.05 over 60")
    compare(one, 500)
    pass_seconds(one, clock, 30)
    assert (one.status()["phase"], share(one)) == ("rolled_back", 0)
    with pytest.raises(RolloutError, match="nothing comes after phase rolled_back"):
        one.command("promote", "ann")


def test_after_a_new_start_nothing_of_the_old_evidence_counts(store: Store):
    clock = Clock()
    one = at_half(store, clock)
    before = {user for user in USERS if one.choose(user) == CANDIDATE}
    compare(one, 60, divergence=0.05)
    one.tick()
    one.command("start", "ann")
    status = one.status()
    assert (status["phase"], status["generation"], status["counts"]["compared"]["total"]) == ("shadow", 2, 0)
    assert status["quantities"]["divergence"]["worse"]["e_value"] == 1
    one.command("promote", "ann")
    one.command("promote", "ann")
    assert {user for user in USERS if one.choose(user) == CANDIDATE} != before


def test_a_promotion_by_hand_names_what_was_missing_and_is_refused_against_evidence():
    one = controller(Memory(), Clock())
    one.command("start", "ann")
    assert one.command("promote", "ann")["reason"].startswith(
        "by hand (0 of 10 seconds in this phase; 0 of 10"
    )
    compare(one, 60, divergence=0.05)
    with pytest.raises(RolloutError, match=r"promote: divergence: 0\.05 over 60; shown to be more"):
        one.command("promote", "ann")


def test_a_pause_holds_what_would_have_gone_on_but_not_a_rollback():
    clock = Clock()
    one = controller(Memory(), clock)
    one.command("start", "ann")
    one.command("pause", "ann")
    compare(one, 100)
    pass_seconds(one, clock, 30)
    assert (one.status()["phase"], one.status()["dwelt"]) == ("shadow", 0)
    one.command("resume", "ann")
    pass_seconds(one, clock, 10)
    assert one.status()["phase"] == "canary"
    one.command("pause", "ann")
    compare(one, 100, divergence=0.08)
    one.tick()
    assert one.status()["phase"] == "rolled_back"


@pytest.mark.parametrize("jump", [1e9, -1e9])
def test_a_jump_of_either_clock_promotes_nothing(jump: float):
    monotonic, wall = Clock(), Clock(1e9)
    one = Controller(quick(shadow={"weight": 0.0, "dwell": 600, "compared": 10}), Memory(), "low-bit",
                     monotonic=monotonic, wall=wall)  # fmt: skip
    one.command("start", "ann")
    compare(one, 100)
    pass_seconds(one, monotonic, 5)
    wall.now += jump
    pass_seconds(one, monotonic, 5)
    assert (one.status()["phase"], one.status()["dwelt"]) == ("shadow", 10)
    monotonic.now += jump
    one.tick()
    assert one.status()["phase"] == "shadow"
    assert one.status()["dwelt"] <= 20
    pass_seconds(one, monotonic, 579)
    assert one.status()["phase"] == "shadow"


def test_what_was_dwelt_survives_a_restart_and_the_time_between_does_not_count(store: Store):
    clock = Clock()
    one = controller(store, clock)
    one.command("start", "ann")
    compare(one, 100)
    pass_seconds(one, clock, 6)
    clock.now += 3600
    two = controller(store, clock)
    assert two.status()["dwelt"] == 6
    assert two.status()["counts"]["compared"]["phase"] == 100
    pass_seconds(two, clock, 3)
    assert two.status()["phase"] == "shadow"
    pass_seconds(two, clock, 1)
    assert two.status()["phase"] == "canary"


def test_gateways_share_evidence_and_do_not_count_time_twice(store: Store):
    clock = Clock()
    gateways = [controller(store, clock) for _ in range(3)]
    gateways[0].command("start", "ann")
    for _ in range(9):
        for one in gateways:
            clock.now += 1 / 3
            one.tick()
            compare(one, 4)
    for one in gateways:
        one.tick()
        assert one.status()["phase"] == "shadow"
        assert one.status()["dwelt"] <= 9
    counts = [one.status()["counts"]["compared"]["phase"] for one in gateways]
    assert counts[-1] == 3 * 9 * 4
    for _ in range(3):
        for one in gateways:
            clock.now += 1 / 3
            one.tick()
    assert {one.status()["phase"] for one in gateways} == {"canary"}
    assert [[one.choose(user) for user in USERS] for one in gateways[:2]] == [
        [gateways[2].choose(user) for user in USERS]
    ] * 2


def test_a_rollback_by_one_gateway_is_the_others_after_their_next_tick(store: Store):
    clock = Clock()
    one = at_half(store, clock)
    two = controller(store, clock)
    assert share(two) > 0.4
    one.command("rollback", "ann")
    two.tick()
    assert share(two) == 0


def test_another_candidate_has_no_weight_until_it_is_started(store: Store):
    clock = Clock()
    at_half(store, clock)
    other = controller(store, clock, "another")
    assert (other.status()["phase"], share(other)) == ("idle", 0)
    with pytest.raises(RolloutError, match="promote: this candidate has not been started"):
        other.command("promote", "ann")
    compare(other, 100, divergence=0.08)
    pass_seconds(other, clock, 20)
    assert controller(store, clock).status()["phase"] == "canary"
    other.command("start", "ann")
    assert share(controller(store, clock)) == 0


def test_without_its_store_a_rollout_holds_and_loses_no_evidence(redis_server: RedisServer, opened: Opener):
    clock = Clock()
    one = at_half(opened(redis_server.url), clock)
    redis_server.kill()
    compare(one, 100)
    pass_seconds(one, clock, 30)
    status = one.status()
    assert (status["phase"], status["weight"]) == ("canary", 0.5)
    assert "Redis" in status["trouble"]
    assert status["counts"]["compared"]["phase"] == 100
    assert share(one) == pytest.approx(0.5, abs=0.12)
    with pytest.raises(StoreError):
        one.command("promote", "ann")
    redis_server.start()
    one.tick()
    assert one.status()["trouble"] == ""
    assert one.status()["counts"]["compared"]["phase"] == 100
    pass_seconds(one, clock, 10)
    assert one.status()["phase"] == "full"


def test_a_rollback_without_the_store_acts_at_once_and_is_kept_later(
    redis_server: RedisServer, opened: Opener
):
    clock = Clock()
    one = at_half(opened(redis_server.url), clock)
    redis_server.kill()
    compare(one, 60, divergence=0.05)
    one.tick()
    assert share(one) == 0
    assert "Redis" in one.status()["trouble"]
    redis_server.start()
    one.tick()
    assert one.status()["trouble"] == ""
    two = controller(opened(redis_server.url), clock)
    assert (two.status()["phase"], share(two)) == ("rolled_back", 0)


def test_a_rollback_does_not_wait_for_a_store_that_does_not_answer(redis_server: RedisServer, opened: Opener):
    one = at_half(opened(redis_server.url), Clock())
    redis_server.stop()
    ticking = threading.Thread(target=one.tick)
    ticking.start()
    command = threading.Thread(target=one.command, args=("rollback", "ann"))
    command.start()
    began = time.monotonic()
    until(lambda: share(one) == 0)
    assert time.monotonic() - began < 0.9, "waited for the store"
    ticking.join()
    command.join()
    assert (one.status()["phase"], one.status()["weight"]) == ("rolled_back", 0.0)


def test_a_store_that_went_back_in_time_is_told_what_the_gateway_knows(
    redis_server: RedisServer, opened: Opener
):
    clock = Clock()
    one = at_half(opened(redis_server.url), clock)
    one.command("rollback", "ann")
    redis_server.kill()
    redis_server.forget()
    redis_server.start()
    assert opened(redis_server.url).read() is None
    one.tick()
    two = controller(opened(redis_server.url), clock)
    assert (two.status()["phase"], share(two)) == ("rolled_back", 0)


def test_a_gateway_that_starts_while_the_store_is_lost_sends_nobody_to_the_candidate(
    redis_server: RedisServer, opened: Opener
):
    clock = Clock()
    at_half(opened(redis_server.url), clock)
    redis_server.kill()
    two = controller(opened(redis_server.url), clock)
    assert (share(two), two.status()["weight"]) == (0, 0.0)
    redis_server.start()
    two.tick()
    assert share(two) == pytest.approx(0.5, abs=0.12)


def test_the_keeper_ticks_and_keeps_at_the_end(tmp_path, opened: Opener):
    file = str(tmp_path / "rollout.db")
    one = Controller(quick(), opened(file), "low-bit")
    one.command("start", "ann")
    with Keeper(one, every=0.01):
        compare(one, 60)
        until(lambda: one.status()["counts"]["compared"]["total"] == 60)
        compare(one, 5)
    again = Controller(quick(), opened(file), "low-bit")
    assert again.status()["counts"]["compared"]["total"] == 65


def test_an_unknown_command_is_refused():
    with pytest.raises(RolloutError, match="halt: is no command; there are start, promote, pause"):
        controller(Memory(), Clock()).command("halt", "ann")


def test_served_requests_of_both_arms_are_counted():
    one = at_half(Memory(), Clock())
    draw = random.Random(5)
    for user in USERS:
        one.observe(Serving(one.choose(user), 0.0, first_token=draw.random(), per_token=draw.random()))
    one.tick()
    counts = one.status()["counts"]
    assert counts["served.candidate"]["phase"] + counts["served.baseline"]["phase"] == 400
    assert counts["served.candidate"]["phase"] / 400 == share(one)


def test_while_an_arm_is_not_up_nothing_is_promoted_and_time_stands_still(store: Store):
    clock, down = Clock(), set[str]()
    one = Controller(
        quick(), store, "low-bit", monotonic=clock, wall=lambda: 1e9, up=lambda arm: arm not in down
    )
    one.command("start", "ann")
    compare(one, 1_000)
    for arm in (BASELINE, CANDIDATE):
        down.add(arm)
        pass_seconds(one, clock, 30)
        found = one.status()
        assert (found["phase"], found["trouble"]) == ("shadow", f"no replica of the {arm} is up")
        assert found["dwelt"] == 0
        down.clear()
    down.add(BASELINE)
    assert one.command("promote", "ann")["phase"] == "canary", "a person may: users wait"
    one.command("promote", "ann")
    assert one.command("promote", "ann")["phase"] == "full"
    one.tick()
    assert one.status()["trouble"] == "", "after the release the baseline may go"
