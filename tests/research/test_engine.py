"""The same numbers as vLLM with the same spec: greedy tokens, and log-probabilities of a prompt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kvant.research import KvantCache
from kvant.transforms import Calibration, Rotation
from kvant.transforms.calibrated import diag, file_digest
from tests.engine.run import generate, logprobs, prompt, tokens

SPEC = {"key": "codebook4", "value": "codebook2", "sinks": 4, "window": 64, "block_size": 32}

SHARE = 0.02
"""Mean distance of log-probabilities from vLLM's, of their distance from a 16-bit cache's. Both models are
float32, and their last bits differ: 1e-5 without Kvant, and now and then one of them becomes another code.
"""


def calibrated(folder: Path, layers: int, heads: int, head_dim: int) -> dict[str, Any]:
    """SPEC with key transforms learnt from nothing: made of random moments."""
    from kvant.transforms import KeyTransform

    rng, found = np.random.default_rng(0), {}
    for layer in range(layers):
        matrices = []
        for head in range(heads):
            moments = [m @ m.T for m in rng.standard_normal((2, head_dim, head_dim))]
            matrices.append(diag(*moments, Rotation(0, head_dim).signs(layer, head, "key")))
        mean = rng.standard_normal((heads, head_dim)).astype(np.float32)
        found[layer] = KeyTransform(mean, np.stack(matrices).astype(np.float32))
    file = folder / "transforms.safetensors"
    Calibration(found, {}).save(file)
    return SPEC | {"calibration": str(file), "calibration_digest": file_digest(file)}


def read(model: Any, ids: list[int], **options: Any) -> np.ndarray:
    """What `logprobs` reads from vLLM's output."""
    found = model(torch.tensor([ids]), **options).logits[0, :-1].log_softmax(-1)
    return found.gather(1, torch.tensor(ids[1:])[:, None])[:, 0].numpy()


@pytest.mark.parametrize("case", ["llama", "gemma3", "calibrated llama"])
def test_against_vllm(case: str, models: Callable[[str], Path], engine: Any, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    family = case.split()[-1]
    spec = calibrated(tmp_path, 4, 2, 64) if "calibrated" in case else SPEC
    prompts = [prompt(300), prompt(170, seed=1)]
    llm = engine(spec, family)
    served = generate(llm, prompts, 24, prompt_logprobs=0)
    plain, model = (
        AutoModelForCausalLM.from_pretrained(models(family), dtype=torch.float32).eval() for _ in range(2)
    )
    with torch.no_grad(), KvantCache(model, spec) as cache:
        for ids, output, answer in zip(prompts, served, tokens(served), strict=True):
            cache.reset()
            ours = np.abs(read(model, ids, past_key_values=cache) - logprobs(output))
            bits = np.abs(read(plain, ids) - logprobs(output))
            assert ours.mean() < SHARE * bits.mean()
            assert ours.max() < bits.mean()
            cache.reset()
            greedy = model.generate(
                torch.tensor([ids]),
                past_key_values=cache,
                max_new_tokens=24,
                do_sample=False,
                eos_token_id=None,
            )
            assert greedy[0, len(ids) :].tolist() == answer
