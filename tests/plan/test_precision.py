"""Bytes of every precision: ours from the pages, vLLM's from its code, and those that were published."""

from __future__ import annotations

import pytest

from kvant.cache.layout import PageLayout
from kvant.errors import ConfigError
from kvant.formats import KEY_FORMATS
from kvant.plan.precision import DEFAULT, Ours, parse
from kvant.plan.published import STORED
from kvant.recipes import preset
from tests.plan.models import DEEPSEEK_V3, GEMMA3_27B, LLAMA_8B, QWEN3_4B, planned


def named(name):
    return parse([name])[-1]


def test_turboquant_of_3_bits_on_qwen3_4b_is_3_43x_as_published(tmp_path):
    """36 layers, 4 of them in 16 bits: 36 x 512 bytes a head against 32 x 104 + 4 x 512."""
    model = planned(tmp_path, QWEN3_4B)
    ratio = 16 / named("turboquant_3bit_nc@pr38479").bits(model)
    assert ratio == 36 * 512 / (32 * 104 + 4 * 512)
    assert f"{ratio:.2f}x" == "3.43x"


def test_turboquant_as_vllm_ships_it_stores_two_bytes_less(tmp_path):
    ratio = 16 / named("turboquant_3bit_nc").bits(planned(tmp_path, QWEN3_4B))
    assert f"{ratio:.2f}x" == "3.47x"


@pytest.mark.parametrize(
    "name", [name for name in STORED if name.startswith("turboquant") and "@" not in name]
)
@pytest.mark.parametrize("dim", [64, 96, 128, 256])
def test_slots_are_those_of_vllm(name, dim):
    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig

    assert STORED[name].slot(dim) == TurboQuantConfig.from_cache_dtype(name, dim).slot_size_aligned


@pytest.mark.parametrize("layers", [1, 3, 6, 36])
def test_boundary_layers_are_those_of_vllm(layers):
    from types import SimpleNamespace

    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig

    config = SimpleNamespace(is_hybrid=False, hf_text_config=SimpleNamespace(num_hidden_layers=layers))
    kept = {int(n) for n in TurboQuantConfig.get_boundary_skip_layers(config)}
    one = named("turboquant_3bit_nc")
    assert {n for n in range(layers) if one.in_16_bits(n, layers)} == kept


@pytest.mark.parametrize("name", ["fp8_per_token_head", "int8_per_token_head", "int4_per_token_head"])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_inline_scales_are_those_of_vllm(name, dim):
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
    from vllm.v1.kv_cache_interface import FullAttentionSpec, get_kv_quant_mode

    spec = FullAttentionSpec(
        block_size=16, num_kv_heads=1, head_size=dim, dtype=STR_DTYPE_TO_TORCH_DTYPE[name],
        kv_quant_mode=get_kv_quant_mode(name),
    )  # fmt: skip
    assert TritonAttentionBackend.customize_spec(spec).page_size_bytes == 16 * STORED[name].slot(dim)


@pytest.mark.parametrize("name", preset.names())
def test_presets_have_the_bytes_of_their_pages(tmp_path, name):
    model = planned(tmp_path, QWEN3_4B)
    one = preset.find(name)
    layout = PageLayout(KEY_FORMATS[one.key], KEY_FORMATS[one.value], 128, 8, 64)
    assert named(name).token_bytes(0, model.layers[0], 36) * 64 == layout.page_bytes


@pytest.mark.parametrize("key", [name for name, fmt in KEY_FORMATS.items() if "+" not in name])
def test_every_format_can_be_planned_by_name(tmp_path, key):
    model = planned(tmp_path, LLAMA_8B)
    assert named(f"{key}/int8").bits(model) == (KEY_FORMATS[key].bits_per_value(128) + 8.125) / 2


def test_copies_are_counted_by_sequence(tmp_path):
    """Preset max keeps 4 and 64 tokens: a tile and six of 16 tokens for each of 16 running and 16 spare."""
    model = planned(tmp_path, LLAMA_8B)
    tile = 16 * 8 * 128 * 2 * 2
    assert named("max").kept_bytes(model, 1, 16) == 32 * (16 + 16) * (1 + 6) * tile
    assert named("max").kept_bytes(model, 2, 16) == 32 * (16 + 16) * (1 + 6) * tile // 2
    assert named("max").kept_bytes(model, 1, 100) == 32 * (100 + 32) * (1 + 6) * tile
    assert named("int8").kept_bytes(model, 1, 16) == 0


@pytest.mark.parametrize(("name", "token_bytes"), [("bf16", 61 * 1152), ("fp8", 61 * 576)])
def test_latent_vectors_in_vllm(tmp_path, name, token_bytes):
    model = planned(tmp_path, DEEPSEEK_V3)
    assert sum(named(name).token_bytes(n, x, 61) for n, x in model.owning) == token_bytes


@pytest.mark.parametrize(
    ("config", "name", "reason"),
    [
        (DEEPSEEK_V3, "int8", "Kvant does not store MLA's latent vectors"),
        (DEEPSEEK_V3, "turboquant_3bit_nc", "vLLM stores MLA's latent vectors in bf16 or fp8 only"),
        (GEMMA3_27B, "turboquant_3bit_nc", "not planned: how vLLM pads"),
        (LLAMA_8B | {"head_dim": 72}, "int8", "head_dim 72: format int8 stores multiples of 16"),
    ],
)
def test_what_an_engine_refuses_is_not_planned(tmp_path, config, name, reason):
    assert named(name).refusal(planned(tmp_path, config)).startswith(reason)


def test_names_are_suggested(tmp_path):
    with pytest.raises(ConfigError, match=r"--precision: 'balaced' is none; did you mean balanced\?"):
        parse(["balaced"])
    with pytest.raises(ConfigError, match="value format 'codebook5' does not exist"):
        parse(["int8/codebook5"])
    with pytest.raises(
        ConfigError, match=r"--precision: 'turboquant_2bit' is none; did you mean turboquant_"
    ):
        parse(["turboquant_2bit"])


def test_the_baseline_stands_first_and_nothing_twice():
    assert [one.name for one in parse(["max", "bf16", "max"])] == ["bf16", "max"]
    assert [one.name for one in parse(DEFAULT)] == list(DEFAULT)
    assert [one.name for one in parse(DEFAULT) if isinstance(one, Ours)] == [
        "int8",
        "lossless",
        "balanced",
        "max",
    ]
