"""Reported failures of kind block-layout."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.run import caches, generate, prompt, tokens
from tests.engines import MakeEngine

SPECS = pytest.mark.parametrize("name", ["int8", "codebook4", "codebook3"])


@SPECS
def test_h5_01_stale_pool_contents_never_reach_an_answer(engine: MakeEngine, name: str) -> None:
    """Every residue of the last block at two sizes, pool filled with zeros and with 0xFF (NaN scales)."""
    llm = engine({"key": name, "value": name, "block_size": 16}, block_size=16, enable_prefix_caching=False)
    prompts = [prompt(length, length) for start in (33, 257) for length in range(start, start + 16)]
    streams = {}
    for poison in (0x00, 0xFF):
        for cache in caches(llm).values():
            cache.fill_(poison)
        streams[poison] = tokens(generate(llm, prompts, 16))
    different = [len(p) % 16 for p, a, b in zip(prompts, streams[0], streams[0xFF], strict=True) if a != b]
    assert not different, f"answers depend on stale pool contents at residues {different}"


@SPECS
def test_h5_03_first_batch_equals_second_and_looking_changes_nothing(engine: MakeEngine, name: str) -> None:
    llm = engine({"key": name, "value": name}, enable_prefix_caching=False, fresh=True)
    batch = [prompt(120, 1)] * 8  # max_num_seqs identical requests as the first traffic
    first = tokens(generate(llm, batch, 12))
    assert all(stream == first[0] for stream in first)
    before = {layer: cache.clone() for layer, cache in caches(llm).items()}
    llm.collective_rpc("kvant_report")
    llm.llm_engine.model_executor.driver_worker.worker.model_runner._dummy_run(16)
    assert all(np.array_equal(cache, before[layer]) for layer, cache in caches(llm).items())
    assert tokens(generate(llm, batch, 12)) == first
