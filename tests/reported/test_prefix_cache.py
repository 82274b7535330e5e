"""Reported failures of kind prefix-cache."""

from __future__ import annotations

import pytest

from tests.engine.run import generate, prompt, tokens
from tests.engines import MakeEngine

SPECS = pytest.mark.parametrize("name", ["int8", "codebook4"])


@SPECS
def test_h5_04_a_cached_prefix_reads_like_a_fresh_one(engine: MakeEngine, name: str) -> None:
    """Cold and warm, and a conversation whose second turn is prefilled in chunks."""
    llm = engine({"key": name, "value": name}, max_num_batched_tokens=256)
    history: list[int] = []
    for turn, length in enumerate((100, 700, 90)):
        history += prompt(length, 40 + turn)
        salt = [2 + turn]  # a first token of its own makes the cold run miss
        cold = generate(llm, [salt + history], 8, logprobs=1)[0]
        warm = generate(llm, [salt + history], 8, logprobs=1)[0]
        assert cold.num_cached_tokens == 0
        assert warm.num_cached_tokens > 0
        assert tokens([warm]) == tokens([cold])
        for one, other in zip(cold.outputs[0].logprobs, warm.outputs[0].logprobs, strict=True):
            for token, entry in one.items():
                assert other[token].logprob == pytest.approx(entry.logprob, abs=1e-3)
        grown = generate(llm, [history], 8)[0]  # the chain of the earlier turns, continued
        assert grown.num_cached_tokens > 0 or turn == 0
        history += list(grown.outputs[0].token_ids)
    (report,) = llm.collective_rpc("kvant_report")
    assert len({layer["digest"] for layer in report["layers"]}) == 1


@SPECS
def test_h5_05_cached_and_fresh_requests_in_one_batch(engine: MakeEngine, name: str) -> None:
    """32 requests over a warm shared prefix, four of them uncached and the longest."""
    llm = engine({"key": name, "value": name})
    shared = prompt(512, 50)
    generate(llm, [shared], 1)
    prompts = [shared + prompt(20 + n, 60 + n) for n in range(28)] + [prompt(900, 90 + n) for n in range(4)]
    order = [n * 9 % 32 for n in range(32)]
    together = generate(llm, [prompts[n] for n in order], 6)
    alone = {n: tokens(generate(llm, [prompts[n]], 6))[0] for n in (0, 13, 27, 28, 31)}
    got = dict(zip(order, tokens(together), strict=True))
    assert {n: got[n] for n in alone} == alone
