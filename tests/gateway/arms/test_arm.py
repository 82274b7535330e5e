"""Which replica answers."""

from __future__ import annotations

from collections import Counter

from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.poll import gauges
from kvant.gateway.arms.replica import Replica


def arm(count: int = 4, **fields: bool) -> Arm:
    return Arm("baseline", [Replica(f"http://127.0.0.1:{8000 + n}", 10) for n in range(count)])


def test_the_least_loaded_by_slots_memory_and_queue() -> None:
    four = arm()
    for replica, (inflight, kv, waiting) in zip(
        four.replicas, [(5, 0.1, 0), (1, 0.9, 0), (1, 0.1, 9), (3, 0.2, 0)], strict=True
    ):
        replica.inflight, replica.kv, replica.waiting = inflight, kv, waiting
    assert four.pick(0.0) is four.replicas[3]


def test_prompts_that_begin_alike_go_to_one_replica_until_it_is_much_fuller() -> None:
    four = arm()
    owner = four.pick(0.0, prefix="system")
    assert owner is not None
    owner.inflight = 2
    assert four.pick(0.0, prefix="system") is owner
    owner.inflight = 3
    assert four.pick(0.0, prefix="system") is not owner


def test_prefixes_spread_and_a_lost_replica_moves_only_its_own() -> None:
    four = arm()
    before = {f"p{n}": four.pick(0.0, prefix=f"p{n}") for n in range(400)}
    spread = Counter(one.url for one in before.values() if one)
    assert len(spread) == 4
    assert min(spread.values()) > 60
    lost = four.replicas.pop(0)
    after = {name: four.pick(0.0, prefix=name) for name in before}
    assert all(before[name] is lost or before[name] is after[name] for name in before)


def test_long_prompts_have_their_own_replicas_and_others_keep_out() -> None:
    four = arm()
    four.replicas[2].long = True
    assert {four.pick(0.0, long=True).url for _ in range(5)} == {four.replicas[2].url}
    four.replicas[2].down_until = 9.0
    assert four.pick(0.0, long=True) is four.replicas[2]  # no other can hold it
    for replica in four.replicas:
        replica.inflight = 0 if replica.long else 9
    assert four.pick(0.0) is not four.replicas[2]
    assert arm().pick(0.0, long=True) is not None  # where none is marked, all take them


def test_one_that_is_down_is_asked_only_when_all_are() -> None:
    two = arm(2)
    two.replicas[0].failed(now=0.0)
    assert two.pick(1.0) is two.replicas[1]
    assert two.pick(1.0, tried=[two.replicas[1]]) is two.replicas[0]
    assert two.pick(1.0, tried=two.replicas) is None


def test_vllms_gauges_are_read_and_nothing_else() -> None:
    text = (
        b'# HELP vllm:num_requests_waiting x\nvllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 2.0\n'
        b'vllm:kv_cache_usage_perc{engine="0"} 0.25\n'
        b'vllm:kv_cache_usage_perc{engine="1"} 0.75\nvllm:num_requests_waiting nan\nother 7\n'
        b"vllm:num_requests_waiting oops\nvllm:num_requests_waiting_total 8\n"
    )
    assert gauges(text) == {"num_requests_running": 5.0, "kv_cache_usage_perc": 0.75}
