"""From bits and codec to formats: every combination that the rules allow can be built."""

from __future__ import annotations

import itertools

import pytest
from pydantic import ValidationError

from kvant.cache import CacheSpec
from kvant.config import KVCache, Model, Settings
from kvant.config.kv_cache import DEFAULT_PRESET
from kvant.errors import ConfigError
from kvant.formats import KEY_FORMATS, VALUE_FORMATS, parse


@pytest.mark.parametrize(
    ("fields", "key", "value", "rotate"),
    [
        ({"key_bits": 8}, "int8", "int8", True),
        ({"value_bits": 8}, "int8", "int8", True),
        ({"key_bits": 16, "value_bits": 16}, "bf16", "bf16", False),
        ({"key_bits": 4, "value_bits": 4}, "codebook4", "codebook4", True),
        ({"key_bits": 8, "value_bits": 3, "scale": "byte"}, "int8", "codebook3-byte", True),
        ({"codec": "int", "key_bits": 8, "value_bits": 4}, "int8", "int4", True),
        ({"codec": "int", "rotate_enable": False}, "int8", "int8", False),
        ({"codec": "int", "asymmetric": True, "value_bits": 4}, "int8-asym", "int4-asym", True),
        ({"codec": "codebook", "key_bits": 4, "value_bits": 2}, "codebook4", "codebook2", True),
        ({"codec": "polar", "key_bits": 4, "value_bits": 4}, "polar", "polar", True),
        ({"codec": "trellis", "key_bits": 3, "value_bits": 2}, "trellis3", "trellis2", True),
    ],
)
def test_bits_and_codec_become_formats(fields, key, value, rotate):
    spec = Settings(kv_cache=KVCache(**fields)).kv_cache.to_spec()
    assert (spec.key.name, spec.value.name, spec.rotate) == (key, value, rotate)


def test_the_founding_documents_default_can_be_written():
    cache = KVCache(
        key_bits=3, key_residual_bits=1, value_bits=4, block_size=16, rotate_seed=42, skip_layers=[1]
    )
    spec = Settings(kv_cache=cache).kv_cache.to_spec()
    assert spec == CacheSpec(parse("codebook3+jl"), parse("codebook4", "value"), True, 42, 16, (1,))
    assert CacheSpec.from_json(spec.to_json()) == spec


def test_every_allowed_combination_has_formats_and_every_format_a_combination():
    keys, values = set(), set()
    choices = {
        "codec": ("auto", "int", "codebook", "polar", "trellis"),
        "key_bits": (2, 3, 4, 8, 16),
        "key_residual_bits": (0, 1),
        "value_bits": (2, 3, 4, 8, 16),
        "asymmetric": (False, True),
        "scale": ("bf16", "byte"),
        "rotate_enable": (None, False, True),
    }
    for combination in itertools.product(*choices.values()):
        try:
            settings = Settings(kv_cache=KVCache(**dict(zip(choices, combination, strict=True))))
        except ValidationError:
            continue
        spec = settings.kv_cache.to_spec()
        keys.add(spec.key.name)
        values.add(spec.value.name)
    assert keys == set(KEY_FORMATS)
    assert values == set(VALUE_FORMATS)


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        ("{}", "default"),
        ("{block_size: 32, skip_layers: [1]}", "default"),
        ("{codec: auto, key_residual_bits: 0}", "default"),
        ("{preset: max}", "max"),
        ("{preset: max, skip_layers: [0]}", "max"),
        ("{preset: null}", None),
        ("{key_bits: 8}", None),
        ("{scale: byte, value_bits: 4}", None),
        ("{rotate_seed: 1}", None),
        ("{recipe: /somewhere}", None),
        ("{enable_quant: false}", None),
    ],
)
def test_whoever_names_formats_means_no_preset(read, text, preset):
    cache = read(f"kv_cache: {text}\n").kv_cache
    assert cache.preset == (DEFAULT_PRESET if preset == "default" else preset)


def test_a_preset_and_a_recipe_are_resolved_with_the_model():
    for cache in (KVCache(preset="max"), KVCache(recipe="x")):
        with pytest.raises(ConfigError, match="is resolved with the model"):
            cache.to_spec()


def test_the_baseline_has_no_spec():
    with pytest.raises(ConfigError, match="enable_quant: false"):
        KVCache(enable_quant=False).to_spec()


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"key_bits": 4, "value_bits": 8}, "kv_cache.value_bits: 8 bits for values and 4 for keys"),
        (
            {"key_bits": 3, "key_residual_bits": 1, "value_bits": 4},
            "kv_cache.key_residual_bits: the sign bit",
        ),
        ({"rotate_seed": 3, "rotate_enable": False}, "kv_cache.rotate_seed: has no effect"),
    ],
)
def test_what_is_allowed_but_doubtful_is_warned_about(fields, warning):
    warnings = Settings(kv_cache=KVCache(**fields)).warnings
    assert any(line.startswith(warning) for line in warnings)


def test_low_bit_keys_are_warned_about_unless_the_model_is_known_to_bear_them():
    low = KVCache(key_bits=4, value_bits=4)
    (line,) = Settings(kv_cache=low, model=Model(path="Qwen/Qwen2.5-0.5B-Instruct")).warnings
    assert line.startswith("kv_cache.key_bits: 4-bit keys without calibration fail")
    assert Settings(kv_cache=low, model=Model(path="/models/SmolLM2-135M-Instruct")).warnings == ()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"value_bits": 4},
        {"key_bits": 16, "value_bits": 16},
        {"codec": "int", "rotate_enable": False},
        {"enable_quant": False},
    ],
)
def test_what_is_sound_is_not_warned_about(fields):
    assert Settings(kv_cache=KVCache(**fields)).warnings == ()


def test_a_cache_smaller_than_one_request_is_warned_about(read):
    text = "serving: {max_context: 4096}\nkv_cache: {max_cache_blocks: %d}\n"
    assert "which needs 64" in read(text % 63).warnings[0]
    assert read(text % 64).warnings == ()


def test_a_batch_that_cannot_fill_is_warned_about(read):
    assert read("serving: {max_batch: 65}\n").warnings[0].startswith("serving.max_concurrency: 64")
    assert read("serving: {max_batch: 64}\n").warnings == ()
