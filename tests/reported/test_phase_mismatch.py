"""Reported failures of kind phase-mismatch (H5-10 needs a GPU)."""

from __future__ import annotations

import json

import pytest

from kvant.engine.scratch import SCRATCH
from tests.engine.alone import alone
from tests.engine.run import generate, prompt, tokens
from tests.engines import MakeEngine, Models

SPECS = pytest.mark.parametrize("name", ["int8", "codebook4"])


@SPECS
def test_h5_07_the_longest_prompts_need_no_more_than_start_up_reserved(engine: MakeEngine, name: str) -> None:
    llm = engine({"key": name, "value": name}, max_model_len=4096, max_num_batched_tokens=128, fresh=True)
    reserved = SCRATCH.get().data_ptr(), SCRATCH.get().numel()
    first = generate(llm, [prompt(4095, 1)], 1)  # right after start
    assert len(first[0].outputs[0].token_ids) == 1
    for length in (1, 128, 129, 256, 257, 31 * 128 + 1):
        generate(llm, [prompt(length, length)], 1)
    longest = prompt(4000, 2)
    generate(llm, [longest[:3800]], 1)
    outputs = generate(llm, [longest, *(prompt(4000, n) for n in (3, 4))], 2)
    assert outputs[0].num_cached_tokens >= 3750
    assert all(len(o.outputs[0].token_ids) == 2 for o in outputs)
    assert (SCRATCH.get().data_ptr(), SCRATCH.get().numel()) == reserved


@pytest.mark.parametrize(
    ("width", "exact"),
    [
        pytest.param(1, {}, marks=pytest.mark.slow),
        (3, {"sinks": 4, "window": 64}),
        pytest.param(7, {}, marks=pytest.mark.slow),
        pytest.param(7, {"sinks": 4, "window": 20}, marks=pytest.mark.slow),
    ],
)
def test_h5_09_speculation_never_changes_the_text(
    engine: MakeEngine, models: Models, width: int, exact: dict[str, int]
) -> None:
    """n-gram speculation verifies K+1 tokens in one step over the cached context.

    Tokens that are refused have been written to codes and to 16-bit tiles by then, of which some began a new
    life. It runs in a process of its own: vLLM cannot start another engine after its n-gram proposer.
    """
    copy = prompt(40, 5)
    prompts = [copy * 5, prompt(700, 6), copy + copy[:20], (prompt(60, 7) * 30)[:1700]]
    spec = {"key": "codebook4", "value": "codebook4", **exact}
    answer, _ = alone(
        "tests.reported.speculate", str(models("llama")), json.dumps(spec), str(width), prompts=prompts
    )
    assert answer["accepted"] > 0, "no draft token was ever accepted: the test would prove nothing"
    assert answer["tokens"] == tokens(generate(engine(spec), prompts, 40))
