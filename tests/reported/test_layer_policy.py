"""Reported failures of kind layer-policy (H5-31 is about a transformers Cache, which does not exist yet)."""

from __future__ import annotations

import pytest

from kvant.errors import ConfigError
from tests.engine.run import generate, prompt, tokens
from tests.engines import MakeEngine


@pytest.mark.parametrize("name", ["int8", "codebook4"])
def test_h5_29_sliding_window_layers_are_quantised_too_and_survive_the_wrap(
    engine: MakeEngine, name: str
) -> None:
    """Five windowed layers to one full; prompts shorter than the window of 64, longer, and much longer."""
    llm = engine({"key": name, "value": name}, "gemma3")
    (report,) = llm.collective_rpc("kvant_report")
    assert {layer["window"] for layer in report["layers"]} == {0, 64}
    assert {layer["impl"] for layer in report["layers"]} == {"KvantImpl"}
    whole = engine(
        {"key": name, "value": name}, "gemma3", max_num_batched_tokens=2048, num_gpu_blocks_override=600
    )
    prompts = [prompt(length, length) for length in (10, 63, 64, 65, 100, 129, 400, 1000)]
    assert tokens(generate(llm, prompts, 40)) == tokens(generate(whole, prompts, 40))


def test_h5_29_an_unusable_plan_fails_before_readiness(engine: MakeEngine) -> None:
    """A 16-bit layer whose page would swallow what the other layers save is refused, with the mend."""
    with pytest.raises(ConfigError, match="set block_size to 64"):
        engine({"key": "codebook4", "value": "codebook4", "skip_layers": [0]}, "gemma3")


def test_h5_29_the_mend_works(engine: MakeEngine) -> None:
    spec = {"key": "codebook4", "value": "codebook4", "skip_layers": [0]}
    llm = engine(spec, "gemma3", block_size=64, num_gpu_blocks_override=150)
    (report,) = llm.collective_rpc("kvant_report")
    pages = {layer["page_bytes"] for layer in report["layers"]}
    assert pages == {64 * 2 * 68}
    assert [layer["shape"][2] for layer in report["layers"]] == [16, 64, 64, 64, 64, 64]
    assert len(generate(llm, [prompt(300, 1)], 5)[0].outputs[0].token_ids) == 5
