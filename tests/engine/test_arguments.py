"""Settings as vLLM's command line: every field arrives, and vLLM reads it as it reads its own."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import Any

import pytest

from kvant.config import Settings
from kvant.engine import environment
from kvant.engine.arguments import options, parse
from kvant.engine.chosen import choose
from kvant.engine.threads import bind
from kvant.errors import EngineError


def arguments(cpu: bool = True, env: dict[str, str] | None = None, **sections: dict[str, Any]) -> Namespace:
    settings = Settings.model_validate({"kv_cache": {"preset": "int8"}, **sections})
    spec = choose(settings, "/models/one.two=3", "").spec
    return parse(options(settings, "/models/one.two=3", spec, served_name="one", cpu=cpu, env=env or {}))


def test_what_a_user_gets_who_says_nothing() -> None:
    args = arguments()
    assert args.model == "/models/one.two=3"
    assert args.served_model_name == ["one"]
    assert args.dtype == "bfloat16"
    assert args.max_model_len == -1
    assert args.max_num_seqs == 16
    assert args.block_size == 64
    assert args.kv_cache_memory_bytes == 1 << 30
    assert args.num_gpu_blocks_override is None
    assert str(args.attention_backend).endswith("CUSTOM")
    assert args.additional_config["kvant"]["key"] == "int8"
    assert args.enforce_eager is True
    assert args.enable_log_requests is False


def test_every_field_arrives() -> None:
    args = arguments(
        model={"dtype": "float32"},
        serving={"max_context": 4096, "max_batch": 3, "tensor_parallel": 2},
        kv_cache={
            "codec": "codebook",
            "key_bits": 3,
            "key_residual_bits": 1,
            "value_bits": 4,
            "rotate_seed": 9,
            "block_size": 64,
            "max_cache_blocks": 99,
            "skip_layers": [0, 5],
        },
    )
    assert (args.dtype, args.max_model_len, args.max_num_seqs) == ("float32", 4096, 3)
    assert (args.tensor_parallel_size, args.block_size) == (2, 64)
    assert args.num_gpu_blocks_override == 99
    assert arguments(kv_cache={"memory_gib": 0.5}).kv_cache_memory_bytes == 1 << 29
    assert args.additional_config == {
        "kvant": {
            "key": "codebook3+jl",
            "value": "codebook4",
            "rotate": True,
            "seed": 9,
            "block_size": 64,
            "skip_layers": [0, 5],
            "sinks": 0,
            "window": 0,
            "layers": {},
            "calibration": "",
            "calibration_digest": "",
        }
    }


def test_the_baseline_is_vllms_own_cache() -> None:
    args = arguments(kv_cache={"enable_quant": False})
    assert args.attention_backend is None
    assert "kvant" not in (args.additional_config or {})


def test_options_of_the_engine_section_are_read_by_vllm_itself() -> None:
    args = arguments(
        engine={
            "max_num_batched_tokens": 512,
            "enable_prefix_caching": False,
            "enforce-eager": False,
            "speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4},
            "compilation_config": {"mode": 0},
            "override_generation_config": {"temperature": 0.5},
            "chat_template": None,
        }
    )
    assert args.max_num_batched_tokens == 512
    assert args.enable_prefix_caching is False
    assert args.enforce_eager is False
    assert args.speculative_config["num_speculative_tokens"] == 2
    assert args.override_generation_config == {"temperature": 0.5}


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"max_num_batched_token": 5}, r"max-num-batched-token.*did you mean engine.max_num_batched_tokens"),
        ({"max_num_batched_tokens": "many"}, "max-num-batched-tokens"),
        ({"enable_auto_tool_choice": True}, "tool-call-parser"),
    ],
)
def test_what_vllm_refuses_comes_back_in_its_words(engine: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineError, match=message):
        arguments(engine=engine)


def test_memory_stated_in_the_environment_is_left_to_vllm() -> None:
    assert arguments(env={environment.KV_SPACE: "3"}).kv_cache_memory_bytes is None
    assert arguments(cpu=False).kv_cache_memory_bytes is None


def test_the_settings_win_over_the_environment_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.KV_SPACE, "3")
    assert environment.conflicts(Settings()) == []
    (note,) = environment.conflicts(Settings.model_validate({"kv_cache": {"memory_gib": 2.0}}))
    assert "VLLM_CPU_KVCACHE_SPACE=3 is ignored" in note


def test_environment_of_the_engine_is_ours_only_where_the_user_said_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "ERROR")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    values = environment.defaults(Settings(), cpu=True, local_model=True)
    assert values["VLLM_LOGGING_LEVEL"] == "INFO"
    monkeypatch.setattr(os, "environ", os.environ.copy())
    environment.apply(values)
    assert os.environ["VLLM_LOGGING_LEVEL"] == "ERROR"
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment.defaults(Settings(), cpu=True, local_model=False)


@pytest.mark.parametrize(
    ("cores", "ranks", "bound"),
    [
        ([0, 1], 1, "0,1"),
        ([0, 1], 2, "0|1"),
        ([4, 5, 6, 7], 2, "4,5|6,7"),
        ([0], 2, "nobind"),
        (list(range(16)), 1, "0,1,2,3,4,5,6,7"),
        (list(range(16)), 2, "0,1,2,3|4,5,6,7"),
    ],
)
def test_threads_are_bound_to_all_cores_and_shared_among_ranks(
    cores: list[int], ranks: int, bound: str
) -> None:
    assert bind(cores, ranks, lambda core: str(core % 8)) == bound
