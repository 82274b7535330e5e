"""Short names for what the engine tests do."""

from __future__ import annotations

from typing import Any

import numpy as np


def prompt(length: int, seed: int = 0) -> list[int]:
    """Random token ids of the tiny models' vocabulary."""
    return [int(n) for n in np.random.default_rng(seed).integers(2, 512, length)]


def generate(llm: Any, prompts: list[list[int]], tokens: int = 16, **options: Any) -> list[Any]:
    """Completions, greedy unless `options` say otherwise, in the order of the prompts."""
    from vllm import SamplingParams

    asked = {"max_tokens": tokens, "temperature": 0, "ignore_eos": True, "detokenize": False, **options}
    params = SamplingParams(**asked)
    return llm.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)


def tokens(outputs: list[Any]) -> list[list[int]]:
    return [list(output.outputs[0].token_ids) for output in outputs]


def logprobs(output: Any) -> np.ndarray:
    """Log-probabilities of the prompt's own tokens, from the second on (needs prompt_logprobs=0)."""
    return np.array(
        [position[token].logprob for position, token in
         zip(output.prompt_logprobs[1:], output.prompt_token_ids[1:], strict=True)]
    )  # fmt: skip


def caches(llm: Any) -> dict[str, Any]:
    """The layers' page tensors, by layer name."""
    from vllm.model_executor.layers.attention import Attention

    (found,) = llm.apply_model(
        lambda model: {m.layer_name: m.kv_cache for m in model.modules() if isinstance(m, Attention)}
    )
    return found
