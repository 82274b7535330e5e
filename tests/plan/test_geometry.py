"""Models as a plan sees them, against numbers computed by hand or published by their makers."""

from __future__ import annotations

import json

import pytest

from kvant.errors import ConfigError
from kvant.models import resolve
from kvant.plan.geometry import Layer
from kvant.plan.model import of_path, of_shape
from tests.plan.models import (
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    GEMMA2_2B,
    GEMMA3_4B,
    GEMMA3_27B,
    LLAMA_8B,
    LLAMA_70B,
    MISTRAL_7B,
    MIXTRAL_8X7B,
    QWEN3_4B,
    planned,
)


@pytest.mark.parametrize(
    ("config", "layers", "token_bytes"),
    [
        (LLAMA_8B, 32, 2 * 32 * 8 * 128 * 2),  # 131,072: 2 sides, layers, heads, head_dim, 2 bytes
        (LLAMA_70B, 80, 2 * 80 * 8 * 128 * 2),
        (QWEN3_4B, 36, 147_456),
        (MIXTRAL_8X7B, 32, 131_072),
        (DEEPSEEK_V2, 60, 60 * (512 + 64) * 2),  # one latent vector and a rotary key, not two sides
        (DEEPSEEK_V3, 61, 61 * 576 * 2),
        (GEMMA3_4B, 34, 2 * 34 * 4 * 256 * 2),  # heads and head_dim are the family's own
        (GEMMA3_27B, 62, 2 * 62 * 16 * 128 * 2),
    ],
    ids=["llama-8b", "llama-70b", "qwen3-4b", "mixtral", "deepseek-2", "deepseek-3", "gemma-4b", "gemma-27b"],
)  # fmt: skip
def test_a_token_in_16_bits(tmp_path, config, layers, token_bytes):
    model = planned(tmp_path, config)
    assert (len(model.layers), model.elements() * 2) == (layers, token_bytes)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA_8B, 8_030_261_248),
        (LLAMA_70B, 70_553_706_496),
        (MIXTRAL_8X7B, 46_702_792_704),
        (DEEPSEEK_V2, 235_741_434_880),
        (QWEN3_4B, 4_022_468_096),
    ],
)
def test_parameters_are_those_the_makers_published(tmp_path, config, parameters):
    assert planned(tmp_path, config).parameters == parameters


def test_deepseek_v3_has_671_billion_parameters_of_a_byte(tmp_path):
    model = planned(tmp_path, DEEPSEEK_V3)
    assert model.parameters == pytest.approx(671.03e9, rel=1e-4)
    assert model.weight_bytes == model.parameters


def test_a_tower_that_is_not_counted_is_said_to_be_left_out(tmp_path):
    seeing = planned(tmp_path, GEMMA3_4B, vision_config={"hidden_size": 1152, "num_hidden_layers": 27})
    text = planned(tmp_path, GEMMA3_4B)
    assert seeing.weight_bytes == text.weight_bytes
    assert "text only, without vision_config: --weights-gib" in seeing.weights_from
    assert "text only" not in text.weights_from
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))  # holds all of it
    assert of_path(tmp_path).weights_from == "1 file"


@pytest.mark.parametrize(
    "name",
    [
        "smollm2-135m-instruct",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("qwen2.5-coder-0.5b-instruct", "gemma3-270m")),
    ],
)
def test_counted_parameters_are_those_in_the_files(name, tmp_path):
    folder = resolve(name)
    with_weights = of_path(folder)
    without = of_path(folder / "config.json")
    assert with_weights.weights_from == "1 file"
    assert without.weights_from == "counted, in 16 bits, bfloat16"
    header = 100_000
    assert without.weight_bytes <= with_weights.weight_bytes <= without.weight_bytes + header


def test_a_step_of_a_mixture_reads_the_experts_that_are_asked(tmp_path):
    model = planned(tmp_path, MIXTRAL_8X7B)
    # One request asks 2 of 8 experts of 3 x 4096 x 14336 in each of 32 layers: 12.88 billion are active.
    expert = 32 * 3 * 4096 * 14336
    assert model.bytes_read(1) == 2 * (46_702_792_704 - 6 * expert)
    assert model.bytes_read(1) / 2 == pytest.approx(12.88e9, rel=1e-3)
    # Two ask 8 (1 - (3/4)^2) = 3.5 on average, many ask all.
    assert model.bytes_read(2) == 2 * (46_702_792_704 - 4.5 * expert)
    assert model.bytes_read(1000) == pytest.approx(model.weight_bytes)


def test_gemma_interleaves_five_windows_and_a_full_layer(tmp_path):
    windows = [layer.window for layer in planned(tmp_path, GEMMA3_27B).layers]
    assert windows[:12] == 2 * ([1024] * 5 + [0])
    assert (windows.count(0), windows.count(1024)) == (10, 52)
    assert [layer.window for layer in planned(tmp_path, GEMMA2_2B).layers][:4] == [4096, 0, 4096, 0]


def test_layer_types_are_obeyed_where_they_are_written():
    windows = [layer.window for layer in of_path(resolve("gemma3-270m")).layers]
    assert windows == 3 * ([512] * 5 + [0])


def test_windows_of_all_layers_of_some_and_of_none(tmp_path):
    assert {layer.window for layer in planned(tmp_path, MISTRAL_7B).layers} == {4096}
    assert {layer.window for layer in planned(tmp_path, QWEN3_4B, sliding_window=512).layers} == {0}
    used = planned(tmp_path, QWEN3_4B, sliding_window=512, use_sliding_window=True, max_window_layers=30)
    assert [layer.window for layer in used.layers] == 30 * [0] + 6 * [512]


def test_layers_that_read_another_cache_store_nothing(tmp_path):
    config = {"model_type": "gemma3n_text", "num_hidden_layers": 35, "hidden_size": 2048}
    (tmp_path / "model.safetensors").write_bytes(bytes(1000))
    model = planned(tmp_path, config, intermediate_size=35 * [16384], vocab_size=262400)
    assert (len(model.layers), len(model.owning)) == (35, 20)
    assert model.elements() == 20 * 2 * 2 * 256
    assert model.weight_bytes == 1000


def test_ranks_share_heads_and_copy_those_that_are_too_few():
    layer = Layer(8, 128)
    assert [layer.of_rank(n).kv_heads for n in (1, 4, 8, 16)] == [8, 2, 1, 1]
    assert Layer(1, 576, latent=True).of_rank(8) == Layer(1, 576, latent=True)


def test_a_shape_by_hand_is_the_model(tmp_path):
    text = "layers=34,kv_heads=4,head_dim=256,parameters=4e9,window=1024,every=6"
    assert of_shape(text).layers == planned(tmp_path, GEMMA3_4B).layers
    assert of_shape(text).weight_bytes == 8_000_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layers=36,kv_head=8", "'kv_head' is no part of a shape; did you mean kv_heads?"),
        ("layers=36,kv_heads=8", "head_dim, parameters missing"),
        ("layers=many", "layers=many: expected a whole number above 0"),
        ("layers=-1", "layers=-1: expected a whole number above 0"),
        ("layers=1e9,kv_heads=8,head_dim=128,parameters=4e9", "layers=1000000000: expected at most 10,000"),
    ],
)
def test_a_wrong_shape_is_named(text, message):
    with pytest.raises(ConfigError, match=rf"--shape: {message.replace('?', '.')}"):
        of_shape(text)


@pytest.mark.parametrize(
    ("changes", "line", "message"),
    [
        ({"model_type": "lama"}, 2, "model_type: a plan does not know the layers of 'lama'; did you mean"),
        ({"num_hidden_layers": "32"}, 3, "num_hidden_layers: '32' is text; expected a whole number"),
        ({"num_hidden_layers": 0}, 3, "num_hidden_layers: 0; expected a whole number from 1 to 10,000"),
        ({"num_hidden_layers": 2**31}, 3, "num_hidden_layers: 2147483648; expected a whole number from 1 to"),
        ({"model_type": ["llama"]}, 2, "model_type: a plan does not know the layers of"),
        ({"num_key_value_heads": 5}, 5, "num_key_value_heads: 5 does not divide num_attention_heads 32"),
        ({"sliding_window": True}, 12, "sliding_window: true is a boolean; expected a whole number"),
        ({"layer_types": ["full_attention"]}, 12, "layer_types: expected a list of 32, one for each layer"),
        ({"layer_types": 32 * ["mamba"]}, 12, "layer_types: a plan does not know 'mamba'; known: full"),
        (
            {"quantization_config": {"quant_method": "mxfp4"}},
            12,
            "quantization_config: a plan cannot tell the size of weights quantised by 'mxfp4'; give",
        ),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named_with_its_line(tmp_path, changes, line, message):
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, LLAMA_8B, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}:{line}: {message}")


def test_a_missing_field_and_a_wrong_one_inside_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json: vocab_size: is missing"):
        planned(tmp_path, {name: value for name, value in LLAMA_8B.items() if name != "vocab_size"})
    inner = GEMMA3_4B["text_config"] | {"num_hidden_layers": None}
    assert len(planned(tmp_path, GEMMA3_4B, text_config=inner).layers) == 26  # the family's default
    with pytest.raises(ConfigError, match=r"config\.json:10: num_hidden_layers: 1\.5 is a float"):
        planned(tmp_path, GEMMA3_4B, text_config=inner | {"num_hidden_layers": 1.5})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n"a": 1,\n}', "config.json:3: not valid JSON"),
        ("[]", "config.json:1: holds a list"),
        ('{"a": 1, "a": 2}', "a: is given twice; keep one"),
        ("[" * 100_000, "config.json: maximum recursion depth"),
    ],
)
def test_what_is_no_configuration_is_refused(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        of_path(tmp_path)


def test_a_folder_without_a_configuration_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"has no config\.json; give a model folder"):
        of_path(tmp_path)
    (tmp_path / "config.json").write_bytes(b"{" + json.dumps("\xff").encode("latin-1") + b"\xff}")
    with pytest.raises(ConfigError, match=r"config\.json:1: byte 0xff is not UTF-8"):
        of_path(tmp_path)
