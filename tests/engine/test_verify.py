"""The start-up verdict: every way in which what runs can differ from what was configured is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kvant.cache import CacheSpec, PageIdentity
from kvant.engine.verify import judge
from kvant.errors import EngineError

SPEC = CacheSpec.from_json(
    {"key": "codebook4", "value": "codebook4", "seed": 5, "skip_layers": [0], "block_size": 32}
)


def layer(index: int, spec: CacheSpec = SPEC) -> dict[str, Any]:
    stored = spec.of_layer(index)
    layout = stored.layout(64, 3)
    identity = PageIdentity.of(layout, stored.rotate, stored.seed)
    return {
        "name": f"model.layers.{index}.self_attn.attn",
        "impl": "KvantImpl",
        "shares": None,
        "dtype": "uint8",
        "shape": [100, 3, 32, layout.bytes_per_token_head],
        "page_bytes": layout.page_bytes,
        "key": stored.key.name,
        "value": stored.value.name,
        "head_dim": 64,
        "kv_heads": 3,
        "block_size": 32,
        "bytes_per_token_head": layout.bytes_per_token_head,
        "window": 0,
        "exact": [0, 0],
        "exact_bytes": 0,
        "kernel": "avx512",
        "why_not_better": "",
        "identity": identity.to_json(),
        "digest": identity.digest,
    }


def workers(ranks: int = 1) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "threads": 2, "kv_bytes": 1, "layers": [layer(0), layer(1)]} for rank in range(ranks)
    ]


def test_a_matching_engine_passes_with_exact_sizes() -> None:
    report = judge(workers(2), SPEC, 100, 32, 3200)
    assert report.bytes_per_token == 2 * 3 * (256 + 68)
    assert report.bytes_per_token_bf16 == 2 * 3 * 512
    assert report.effective_bits == pytest.approx((16 + 4.25) / 2)
    assert [plan.stored for plan in report.layers] == ["bf16", "codebook4/codebook4"]
    assert report.ranks == 2


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("impl", "CPUAttentionBackendImpl", "instead of packed codebook4/codebook4 pages"),
        ("dtype", "bfloat16", "element type is 'bfloat16'"),
        ("key", "int8", "key format is 'int8'"),
        ("value", "int8", "value format is 'int8'"),
        ("shape", [100, 3, 32, 256], "bytes per token and head is 256, expected 68"),
        ("shape", [100, 3, 16, 68], "tokens per page is 16"),
        ("shape", [100, 1, 32, 68], "KV heads is 1"),
        ("page_bytes", 4 * 32 * 3 * 68, "bytes of a page is 26112, expected 6528"),
    ],
)
def test_each_difference_is_refused_by_name(field: str, value: Any, named: str) -> None:
    found = workers()
    found[0]["layers"][1][field] = value
    with pytest.raises(EngineError, match="refusing to serve") as error:
        judge(found, SPEC, 100, 32, 3200)
    assert named in str(error.value)
    assert "model.layers.1" in str(error.value)


def test_a_layer_that_keeps_16_bits_unasked_is_refused() -> None:
    found = workers()
    found[0]["layers"] = [layer(0), {**layer(0), "name": "model.layers.1.self_attn.attn"}]
    with pytest.raises(EngineError, match=r"layers\.1\..*key format is 'bf16', expected 'codebook4'"):
        judge(found, SPEC, 100, 32, 3200)


def test_wrong_seed_is_refused() -> None:
    found = workers()
    found[0]["layers"][1]["identity"]["seed"] = 6
    with pytest.raises(EngineError, match="rotation seed is 6, expected 5"):
        judge(found, SPEC, 100, 32, 3200)


def test_ranks_that_disagree_are_refused() -> None:
    found = workers(2)
    other = copy.deepcopy(found[1]["layers"][1])
    other["digest"] = "0" * 64
    found[1]["layers"][1] = other
    with pytest.raises(EngineError, match="ranks disagree"):
        judge(found, SPEC, 100, 32, 3200)


def test_quantised_when_switched_off_is_refused_too() -> None:
    with pytest.raises(EngineError, match="quantisation is off"):
        judge(workers(), None, 100, 32, 3200)


def test_no_attention_layers_is_not_a_pass() -> None:
    with pytest.raises(EngineError, match="no attention layers"):
        judge([{"rank": 0, "threads": 2, "kv_bytes": 0, "layers": []}], SPEC, 100, 32, 3200)
