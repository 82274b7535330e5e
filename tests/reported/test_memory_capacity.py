"""Reported failures of kind memory-capacity: what is saved is really saved (row B11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.alone import alone
from tests.engine.run import generate, prompt
from tests.engines import MakeEngine, Models

BYTES = {"bf16": 256, "int8": 132, "codebook4": 68}


def test_h5_33_capacity_is_what_the_packed_bytes_say(engine: MakeEngine) -> None:
    """1 GiB of pages: blocks, tokens and bytes agree, and a denser mode never holds fewer tokens."""
    tokens = {}
    for name, size in BYTES.items():
        cache = engine(
            {"key": name, "value": name}, num_gpu_blocks_override=None
        ).llm_engine.vllm_config.cache_config
        per_block = 4 * 2 * 32 * size  # layers, KV heads, tokens
        assert cache.num_gpu_blocks == 2**30 // per_block
        assert cache.kv_cache_size_tokens == pytest.approx(cache.num_gpu_blocks * 32, rel=0.05)
        tokens[name] = cache.kv_cache_size_tokens
    assert tokens["bf16"] < tokens["int8"] < tokens["codebook4"]
    assert tokens["codebook4"] / tokens["bf16"] > 0.95 * 256 / 68


def test_h5_33_the_pool_really_holds_the_tokens_it_claims(engine: MakeEngine) -> None:
    """Unique prompts that fill the pool to the last usable block run together without preemption."""
    llm = engine(
        {"key": "int8", "value": "int8"},
        num_gpu_blocks_override=65,
        enable_prefix_caching=False,
        disable_log_stats=False,
    )
    generate(llm, [prompt(8 * 32 - 40, seed) for seed in range(8)], 40)  # 8 requests x 8 blocks = 64
    assert preemptions(llm) == 0
    generate(llm, [prompt(8 * 32 - 38, seed) for seed in range(8)], 40)  # one block each too many
    assert preemptions(llm) > 0


def preemptions(llm: Any) -> int:
    return sum(metric.value for metric in llm.get_metrics() if metric.name == "vllm:num_preemptions")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ("int8", "bf16", "codebook4")]
)
def test_h5_32_b11_resident_memory_holds_the_pages_and_no_16_bit_copy(models: Models, name: str) -> None:
    """What 8,000 more blocks add to a process, and what serving 30,000 tokens adds to that: nothing."""
    measured, _ = alone("tests.reported.resident", str(models("llama")), name)
    per_block = 4 * 2 * 32 * BYTES[name]  # layers, KV heads, tokens
    assert measured["kv_bytes"] == 8100 * per_block
    assert measured["pages"] == pytest.approx(measured["blocks"] * per_block, rel=0.05)
    assert measured["used"] < 16e6, "30,000 tokens were served, and something beside the pages grew"
