"""Tiny transformers models of several families, in memory; weights large enough that attention matters."""

from __future__ import annotations

from typing import Any

import torch

VOCABULARY = 512
SLIDING = 48
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "gemma3n", "gpt_oss")
"""Beyond grouped heads: sliding windows (mistral, gemma, gpt_oss), softcap (gemma2), keys and values shared
between layers (gemma3n), learnt logits in the softmax (gpt_oss)."""

LOW = {"key": "codebook4", "value": "codebook2", "sinks": 4, "window": 64, "block_size": 16}
"""Few bits, rotated, sinks and a window."""
WHOLE = {"key": "int4", "value": "int4", "rotate": False, "sinks": 4, "window": 320}
"""Every token is read in 16 bits, unrotated: keys and values are rounded to bfloat16, no more."""


def model(family: str = "llama", dtype: torch.dtype = torch.float32, **changes: Any) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 2048,
        "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1,
    }  # fmt: skip
    mixed = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
    shape |= {"sliding_window": SLIDING} if family not in ("llama", "qwen2", "qwen3") else {}
    shape |= {
        "gemma2": {"attn_logit_softcapping": 5.0, **mixed},
        "gemma3": {**mixed, "tie_word_embeddings": False},
        "gpt_oss": {"num_local_experts": 2, "num_experts_per_tok": 1, **mixed},
        "gemma3n": {
            "num_hidden_layers": 5, "num_kv_shared_layers": 2, "vocab_size_per_layer_input": VOCABULARY,
            "hidden_size_per_layer_input": 16, "laurel_rank": 4, "activation_sparsity_pattern": None,
            "layer_types": ["sliding_attention", *mixed["layer_types"][::-1], "full_attention"],
        },
    }.get(family, {})  # fmt: skip
    name = {"gemma3": "gemma3_text", "gemma3n": "gemma3n_text"}.get(family, family)
    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(name, **(shape | changes)), dtype=dtype
    ).eval()
    with torch.no_grad():
        for part, weight in made.named_parameters():
            if weight.dim() == 2 and "sinks" not in part:
                weight.normal_(
                    0, 1.0 if "embed" in part else 0.3 if "lm_head" in part else weight.shape[1] ** -0.5
                )
    return made


def text(rows: int, columns: int, seed: int = 0) -> torch.Tensor:
    """Random token ids."""
    return torch.randint(3, VOCABULARY, (rows, columns), generator=torch.Generator().manual_seed(seed))


def logprobs(logits: torch.Tensor) -> torch.Tensor:
    return logits.float().log_softmax(-1)


def furthest(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference of log-probabilities."""
    return float((logprobs(a) - logprobs(b)).abs().max())
