"""Tiny models with random weights, written to disk as a real checkpoint: engines on them start in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

VOCABULARY = 512


def write(folder: Path, family: str = "llama", seed: int = 0, **changes: Any) -> Path:
    """Save a random model of a family ("llama", "qwen2", "gemma3", ...) and return its folder; no tokenizer.

    Weights are larger than at a usual initialisation so that attention matters to the output.
    """
    import torch
    from transformers import AutoModelForCausalLM

    shape = {
        "vocab_size": VOCABULARY,
        "hidden_size": 384,
        "intermediate_size": 768,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 4096,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }
    if family == "gemma3":
        shape |= {"num_hidden_layers": 6, "sliding_window": 64, "query_pre_attn_scalar": 64}
        shape |= {"tie_word_embeddings": False}
    config = _config(family)(**(shape | changes))
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2 and "embed" not in name:
                weight.normal_(0, (0.3 if "lm_head" in name else 1.0 / weight.shape[1] ** 0.5))
            elif "embed" in name:
                weight.normal_(0, 1.0)
    model.save_pretrained(folder)
    return folder


def _config(family: str) -> Any:
    import transformers

    names = {"gemma3": "Gemma3Text"}
    return getattr(transformers, f"{names.get(family, family.capitalize())}Config")
