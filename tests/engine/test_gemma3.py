"""Gemma 3 270M, weights and all, from int8 pages: heads of 256, a window of 512 on 15 of 18 layers.

The prompts follow a rule fixed before anything was measured: four equal steps through the sorted topics of
Python's help that are long enough, cut to four lengths, two of them shorter and two longer than the window.
The model is not tuned to chat, so it continues the bare texts: 32 greedy tokens, float32, one at a time.
Run once on the AMX path, tokens in common with stock vLLM were 32, 32, 5 and 32 with int8, and 2, 2, 3 and 9
with codebook4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest

from tests.engine.test_smollm2 import common
from tests.engines import ENVIRONMENT, build

pytestmark = pytest.mark.slow

TOKENS = 32
LENGTHS = (800, 1600, 3600, 5600)
"""Characters of the texts."""
WINDOW = 512

MakeGemma = Callable[..., Any]


@pytest.fixture(scope="module")
def gemma() -> Iterator[MakeGemma]:
    """An engine on Gemma with this format for keys and values (None: stock vLLM)."""
    from kvant.models import resolve

    kept: dict[str | None, Any] = {}

    def make(name: str | None) -> Any:
        if name not in kept:
            with patch.dict(os.environ, ENVIRONMENT):
                import torch

                spec = {"key": name, "value": name} if name else None
                kept[name] = build(resolve("gemma3-270m"), spec, skip_tokenizer_init=False)
                torch.set_num_threads(1)  # see tests/engines.py
        return kept[name]

    yield make
    kept.clear()


@pytest.fixture(scope="module")
def prompts() -> list[str]:
    from pydoc_data.topics import topics

    names = [name for name in sorted(topics) if len(topics[name]) >= max(LENGTHS)]
    return [topics[names[n * len(names) // 4]][:length] for n, length in enumerate(LENGTHS)]


def answers(llm: Any, prompts: list[str]) -> list[list[int]]:
    from vllm import SamplingParams

    params = SamplingParams(max_tokens=TOKENS, temperature=0, ignore_eos=True)
    found = [llm.generate(prompt, params, use_tqdm=False)[0] for prompt in prompts]
    lengths = [len(answer.prompt_token_ids) for answer in found]
    assert max(lengths[:2]) + TOKENS < WINDOW < min(lengths[2:]), f"lengths in tokens: {lengths}"
    return [list(answer.outputs[0].token_ids) for answer in found]


def test_int8_answers_like_stock_vllm(gemma: MakeGemma, prompts: list[str]) -> None:
    stock, int8 = answers(gemma(None), prompts), answers(gemma("int8"), prompts)
    same = [common(a, b) for a, b in zip(stock, int8, strict=True)]
    assert sum(n == TOKENS for n in same) >= 3, f"tokens in common with stock vLLM: {same} of {TOKENS}"


def test_windowed_and_full_layers_both_have_our_pages(gemma: MakeGemma) -> None:
    (report,) = gemma("int8").collective_rpc("kvant_report")
    assert [layer["window"] for layer in report["layers"]] == 3 * (5 * [WINDOW] + [0])
    for layer in report["layers"]:
        assert (layer["impl"], layer["key"], layer["value"]) == ("KvantImpl", "int8", "int8")
        assert (layer["head_dim"], layer["kv_heads"]) == (256, 1)
        assert layer["dtype"] == "uint8"
        assert layer["page_bytes"] == layer["block_size"] * 2 * (256 + 2), layer
