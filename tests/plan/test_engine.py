"""The plan against running engines: what vLLM logs when it starts, and the tensors it made.

Everything is exact: the blocks, the tokens they hold, the bytes of a token, and those of the 16-bit copies.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from kvant.models import resolve
from kvant.plan import contexts, hardware
from kvant.plan.fit import fit
from kvant.plan.model import of_path
from kvant.plan.precision import Ours, Precision, parse
from kvant.plan.room import Room
from kvant.recipes import preset
from tests.engine.alone import alone
from tests.plan.startup import MEMORY, OPTIONS

SMOLLM2, QWEN, GEMMA = "smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct", "gemma3-270m"


def spec_of(name: str) -> dict[str, Any] | None:
    """A preset's formats, sinks and window; without calibration, which changes no size."""
    if name == "bf16":
        return None
    one = preset.find(name)
    return {"key": one.key, "value": one.value, "sinks": one.sinks, "window": one.window}


def planned(model: str, precision: Precision, options: dict[str, Any]) -> dict[str, Any]:
    """What `kvant plan` says of such a start."""
    room = Room(
        hardware.find("xeon-8592", hardware.devices()),
        kv_memory=MEMORY,
        block_size=options["block_size"],
        step_tokens=options["max_num_batched_tokens"],
    )
    lengths = contexts.of_flag(str(options["max_model_len"]), None)
    found = fit(of_path(resolve(model)), precision, lengths, room, options["max_num_seqs"])
    return {
        "num_blocks": found.num_blocks,
        "tokens": found.tokens,
        "in_flight": room.in_flight,
        "token_bytes": found.allocated,
        "kv_bytes": found.num_blocks * found.block_bytes,
        "exact_bytes": found.kept,
    }


def check(cases: list[tuple[str, Precision, dict[str, Any] | None, dict[str, Any]]]) -> None:
    words = [json.dumps({"model": model, "spec": spec, **options}) for model, _, spec, options in cases]
    started, _ = alone("tests.plan.startup", *words)
    for (model, precision, _, options), is_ in zip(cases, started, strict=True):
        assert planned(model, precision, OPTIONS | options) == is_, f"{model}, {precision.name}, {options}"


def test_lossless_on_the_smallest_demo_model() -> None:
    """What int8 takes is held against its server in every run, in tests/launch/test_memory.py."""
    check([(SMOLLM2, parse(["lossless"])[-1], spec_of("lossless"), {})])


@pytest.mark.slow
def test_int8_and_lossless_on_the_demo_models() -> None:
    cases = [(SMOLLM2, "int8"), *((model, name) for model in (QWEN, GEMMA) for name in ("int8", "lossless"))]
    check([(model, parse([name])[-1], spec_of(name), {}) for model, name in cases])


@pytest.mark.slow
def test_other_precisions_and_other_starts() -> None:
    cases = [
        (model, parse([name])[-1], spec_of(name), {})
        for model in (SMOLLM2, GEMMA)
        for name in ("bf16", "max")
    ]
    odd = {"block_size": 16, "max_model_len": 1000, "max_num_seqs": 3, "max_num_batched_tokens": 1500}
    cases += [(GEMMA, parse([name])[-1], spec_of(name), odd) for name in ("founding", "balanced")]
    cases += [(GEMMA, parse([])[0], None, odd | {"block_size": 32})]  # the least of vLLM's own CPU backend
    check(cases)


@pytest.mark.slow
def test_skipped_layers_and_layers_of_their_own_width() -> None:
    """Of SmolLM2, where pages add up, and of Gemma, where vLLM makes them alike."""
    for model in (SMOLLM2, GEMMA):
        skip = {"key": "int8", "value": "int8", "skip_layers": [0, 1, 5]}
        wide = {"key": "trellis3", "value": "trellis2", "layers": {"2": {"key": "int8", "value": "int8"}}}
        check([(model, _ours(spec), spec, {}) for spec in (skip, wide)])


def _ours(spec: dict[str, Any]) -> Precision:
    from kvant.cache.spec import CacheSpec

    return Ours("named", replace(CacheSpec.from_json(spec), block_size=OPTIONS["block_size"]))
