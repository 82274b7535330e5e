"""Both sides are started alike, and every format's name leads to the settings that have it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kvant.bench.serve import run, sides
from kvant.bench.serve.cases import Case
from kvant.bench.serve.sides import Setup
from kvant.config import load
from kvant.config.scalars import resolve
from kvant.engine.arguments import command_line, options
from kvant.errors import ConfigError
from kvant.recipes import preset as presets

SETUP = Setup(Path("/models/some"), 3, 7600, 16, "0-1")


@pytest.mark.parametrize(
    "fmt",
    [
        "int4",
        "int8-asym",
        "int4-asym",
        "codebook4",
        "codebook3",
        "codebook2",
        "codebook4-byte",
        "polar",
        "trellis3/trellis2",
        "bf16",
        "int8/codebook4",
        "int8/int4",
        "codebook3+jl/codebook4",
    ],
)
def test_a_format_becomes_settings_of_that_name(fmt):
    fields = {f"kv_cache.{name}": value for name, value in sides.cache_fields(fmt).items()}
    cache = load(None, fields).kv_cache
    key, _, value = fmt.partition("/")
    assert (cache.key_format, cache.value_format) == (key, value or key)


@pytest.mark.parametrize("preset", presets.names())
def test_a_preset_stays_one(preset):
    fields = {f"kv_cache.{name}": value for name, value in sides.cache_fields(preset).items()}
    assert load(None, fields).kv_cache.preset == preset


@pytest.mark.parametrize("fmt", ["int5", "", "int4/int5", "fp8"])
def test_an_unknown_format_is_refused(fmt):
    with pytest.raises(ConfigError, match=f"--formats: '{fmt}' is no format and no preset"):
        sides.cache_fields(fmt)


def test_both_sides_get_the_same_threads_memory_and_engine_options():
    stock, ours = sides.stock(SETUP, 1000), sides.kvant(SETUP, "codebook4", 1001)
    assert stock.env == {**ours.env, "VLLM_PLUGINS": ""}
    assert ours.env["VLLM_CPU_OMP_THREADS_BIND"] == "0-1"
    assert ours.env["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert ours.env["TORCH_COMPILE_DISABLE"] == "1"
    for option in ("--max-model-len=7600", "--max-num-seqs=16", "--no-enable-prefix-caching"):
        assert option in stock.command
    for option in ("--max-num-batched-tokens=2048", "--enforce-eager", "--dtype=bfloat16"):
        assert option in stock.command
    assert not any("block-size" in word or "block_size" in word for word in stock.command + ours.command)


def test_what_kvant_serve_is_told_becomes_the_same_options():
    """Through the settings, as `kvant serve` makes its own command line of them."""
    setup = Setup(Path("/models/some"), 3, 7600, 16, "0-1", eager=False, block_size=64)
    stock, ours = sides.stock(setup, 1000), sides.kvant(setup, "codebook4", 1000)
    fields = dict(word.removeprefix("--set=").split("=", 1) for word in ours.command if "--set=" in word)
    settings = load(None, {name: resolve(text.strip('"')) for name, text in fields.items()})
    chosen = options(
        settings,
        str(setup.model),
        settings.kv_cache.to_spec(),
        served_name="bench",
        cpu=True,
        env=dict(ours.env),
    )
    theirs, own = set(stock.command), set(command_line(chosen))
    only_stock = {"--host=127.0.0.1", "--port=1000"}
    assert {word for word in theirs - own if word.startswith("--")} == only_stock
    assert "TORCH_COMPILE_DISABLE" not in ours.env


def test_a_result_file_names_no_folder_of_its_user():
    assert [
        run.shown(word) for word in (sys.executable, f"--model={Path.home()}/models/some", "--port=1")
    ] == [
        "python3",
        "--model=~/models/some",
        "--port=1",
    ]


def test_prompts_share_nothing():
    case = Case(context=50, streams=4, output=8)
    first, second = run.prompts(case, 512, 1), run.prompts(case, 512, 2)
    assert [len(p) for p in first] == [50] * 4
    assert len({tuple(p[:8]) for p in first + second}) == 8
    assert first == run.prompts(case, 512, 1), "both sides get the same"
