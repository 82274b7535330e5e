"""What fits: numbers by hand, and what must hold of any plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvant.plan import contexts, hardware
from kvant.plan.fit import fit
from kvant.plan.model import of_shape
from kvant.plan.precision import parse
from kvant.plan.room import GIB, Room
from kvant.plan.speed import speed

DEVICES = hardware.devices()
H100 = Room(DEVICES["h100"])
MODEL = of_shape(
    "layers=32,kv_heads=8,head_dim=128,parameters=8e9,heads=32,intermediate=14336,vocabulary=128256"
)
WINDOWS = of_shape("layers=24,kv_heads=4,head_dim=128,parameters=3e9,window=1024,every=6")
BY_BITS = ("max", "balanced", "lossless", "int8", "bf16")


def named(name):
    return parse([name])[-1]


def of(tokens):
    return contexts.of_flag(str(tokens), None)


def test_one_gib_by_hand():
    """131,072 bytes a token: 128 blocks of 64 tokens in 1 GiB, one kept back; 8 requests of 1,000 tokens."""
    room = replace(H100, kv_memory=GIB, margin=0.25)
    found = fit(MODEL, named("bf16"), of(1000), room)
    assert (found.token_bytes, found.block_bytes, found.num_blocks) == (131_072, 8_388_608, 128)
    assert (found.longest_fit, found.requests) == (127 // 16, 127 // 16)
    assert found.max_num_seqs == int(0.75 * 127) // 16 == 5
    assert (
        found.tokens == 128 * 1000 // 16
    )  # as vLLM counts: blocks over blocks of a request, times its length
    assert found.watermark == 5 * 16 / 127


def test_memory_of_a_device_by_hand():
    found = fit(MODEL, named("bf16"), of(8192), H100)
    taken = int(79.6 * GIB * 0.92)
    # 2,048 tokens x 2 bytes x (4 x 4096 + 2 x 14336 + 4 x 32 x 128), and 6 bytes a logit of each sequence.
    activations = 2048 * 2 * (4 * 4096 + 2 * 14336 + 4 * 4096) + found.max_num_seqs * 128_256 * 6
    assert found.activations == activations
    assert found.pool == taken - 16_000_000_000 - activations - int(1.5 * GIB)
    assert found.num_blocks == found.pool // (64 * 131_072)


def test_copies_are_taken_out_of_the_pool_and_limit_themselves():
    room = replace(H100, kv_memory=GIB)
    found = fit(MODEL, named("max"), of(2048), room)
    assert found.kept == 32 * (found.max_num_seqs + min(found.max_num_seqs, 32)) * 7 * 16 * 8 * 128 * 4
    assert found.pool == GIB - found.kept
    more = fit(MODEL, named("max"), of(2048), room, found.max_num_seqs + 1)
    assert more.max_num_seqs <= found.max_num_seqs


def test_a_mixture_is_planned_for_its_mean_and_its_spread():
    room = replace(H100, kv_memory=64 * GIB, margin=0.0, risk=2.0)
    found = fit(MODEL, named("bf16"), contexts.of_flag("640:50,6400:50", None), room)
    usable = 64 * 128 - 1
    mean, deviation = 55, 45  # blocks: 10 or 100
    n = found.requests
    assert n * mean + 2 * deviation * n**0.5 <= usable < (n + 1) * mean + 2 * deviation * (n + 1) ** 0.5


def test_speed_by_hand():
    """16 GB of weights and 10 caches of 8,192 - 1,024 tokens at 60 % of 3,350 GB/s."""
    quick = speed(MODEL, named("bf16"), of(8192), H100, 10)
    cache = 10 * (8192 - 1024) * 131_072
    assert quick.seconds == (16e9 + cache) / (3350e9 * 0.6)
    assert quick.tokens == 10 / quick.seconds
    assert quick.cache_share == cache / (16e9 + cache)


def test_windows_and_copies_are_read_as_far_as_they_reach():
    full, local = 4, 20
    bf16, int8 = (2 * 4 * 128 * n for n in (2, 1))
    room = replace(H100, kv_memory=GIB)
    quick = speed(WINDOWS, named("bf16"), contexts.of_flag("10000", 2.0), room, 1)
    assert quick.cache_share * quick.seconds * 3350e9 * 0.6 == pytest.approx(
        bf16 * (full * 9999 + local * 1024)
    )
    kept = replace(named("int8"), spec=replace(named("int8").spec, window=100))
    token = int8 + 2 * 4 * 2  # a bfloat16 scale for each head and side
    quick = speed(WINDOWS, kept, contexts.of_flag("10000", 2.0), room, 1)
    expected = full * (9899 * token + 100 * bf16) + local * (924 * token + 100 * bf16)
    assert quick.cache_share * quick.seconds * 3350e9 * 0.6 == pytest.approx(expected)


TOKENS = st.integers(1, 100_000)
MEMORY = st.floats(0.01, 200)
SHAPES = st.sampled_from([MODEL, WINDOWS])


@settings(max_examples=25, deadline=None)
@given(SHAPES, TOKENS, TOKENS, MEMORY)
def test_longer_requests_never_fit_more_often(model, a, b, memory):
    room = replace(H100, kv_memory=int(memory * GIB))
    short, long = (fit(model, named("lossless"), of(n), room) for n in sorted((a, b)))
    assert short.longest_fit >= long.longest_fit
    assert short.max_num_seqs >= long.max_num_seqs


@settings(max_examples=25, deadline=None)
@given(SHAPES, TOKENS, MEMORY, MEMORY, st.sampled_from(BY_BITS))
def test_more_memory_never_holds_less(model, tokens, a, b, name):
    small, large = (
        fit(model, named(name), of(tokens), replace(H100, kv_memory=int(n * GIB))) for n in sorted((a, b))
    )
    assert small.max_num_seqs <= large.max_num_seqs


@settings(max_examples=25, deadline=None)
@given(SHAPES, TOKENS, st.integers(1, 256), MEMORY)
def test_fewer_bits_never_hold_fewer_tokens(model, tokens, seqs, memory):
    """Beside what 16-bit copies take, which only presets of trellis codes have."""
    room = replace(H100, kv_memory=int(memory * GIB))
    found = [fit(model, named(name), of(tokens), room, seqs) for name in BY_BITS]
    assert [one.bits for one in found] == sorted(one.bits for one in found)
    held = [(one.pool + one.kept) // one.block_bytes for one in found]
    assert held == sorted(held, reverse=True)


@settings(max_examples=25, deadline=None)
@given(SHAPES, TOKENS, MEMORY, st.integers(1, 512), st.sampled_from(BY_BITS))
def test_what_is_recommended_fits(model, tokens, memory, seqs, name):
    room = replace(H100, kv_memory=int(memory * GIB))
    for fixed in (None, seqs):
        found = fit(model, named(name), of(tokens), room, fixed)
        assert 0 <= found.max_num_seqs <= found.requests <= max(found.longest_fit, 0)
        assert found.num_blocks * found.block_bytes + found.kept <= room.kv_memory or not found.num_blocks
        assert 0 <= found.watermark <= 1 - room.margin + 1e-9


@settings(max_examples=25, deadline=None)
@given(SHAPES, TOKENS, st.integers(1, 300), st.integers(1, 300))
def test_more_requests_are_more_tokens_a_second_and_slower_steps(model, tokens, a, b):
    few, many = (speed(model, named("max"), of(tokens), H100, n) for n in sorted((a, b)))
    assert few.tokens <= many.tokens * (1 + 1e-9)
    assert few.seconds <= many.seconds


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 60_000), st.floats(0.01, 100)), min_size=1, max_size=20), MEMORY)
def test_a_mixture_lies_between_its_shortest_and_its_longest(pairs, memory):
    room = replace(H100, kv_memory=int(memory * GIB))
    mixture = contexts.weighted(pairs, None, "drawn")
    found = fit(MODEL, named("int8"), mixture, room)
    shortest, longest = (
        fit(MODEL, named("int8"), of(n), room) for n in (mixture.lengths[0], mixture.longest)
    )
    assert longest.longest_fit == found.longest_fit
    assert found.max_num_seqs <= shortest.max_num_seqs
