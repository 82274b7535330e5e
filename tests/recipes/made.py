"""Tiny models with a tokenizer, and recipes that were made without one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kvant.recipes.recipe import TRANSFORMS, Cache, Calibrated, Facts, Model, Provenance, save
from kvant.transforms.calibrated import Calibration, KeyTransform, file_digest

DIGEST = "ab" * 32
LAYERS, HEADS, DIM = 4, 2, 64
"""The shape of `tests.tiny`'s Llama."""

SHAPE = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "sliding_window": 32,
}
FAMILIES = {
    "Llama": {},
    "Mistral": {},
    "Qwen2": {"use_sliding_window": True, "max_window_layers": 1},
    "Qwen3": {},
    "Gemma2": {"query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0},
    "Gemma3": {"query_pre_attn_scalar": 16, "sliding_window_pattern": 2},
}
GEMMA_3N = {
    "num_hidden_layers": 4,
    "num_kv_shared_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "vocab_size_per_layer_input": 256,
    "hidden_size_per_layer_input": 16,
    "intermediate_size": [64] * 4,
    "activation_sparsity_pattern": [0.0] * 4,
    "laurel_rank": 8,
}


def config(family: str, **changes: Any) -> Any:
    """A transformers configuration, tiny."""
    import transformers

    text = "Text" if family.startswith("Gemma3") else ""
    kind = getattr(transformers, f"{family}{text}Config")
    own = FAMILIES.get(family, GEMMA_3N if family == "Gemma3n" else {})
    return kind(**(SHAPE | own | {"pad_token_id": 0} | changes))


def model(folder: Path, family: str = "Llama", **changes: Any) -> Path:
    """A random model on disk whose tokenizer has one token for each byte."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    made = AutoModelForCausalLM.from_config(config(family, **changes), dtype=torch.float32)
    with torch.no_grad():
        for weight in made.parameters():
            if weight.dim() == 2:
                weight.normal_(0, 1.0 / weight.shape[1] ** 0.5)
            elif weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.3)
    made.save_pretrained(folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_ = Tokenizer(models.BPE({letter: n for n, letter in enumerate(letters)}, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=bytes_).save_pretrained(folder)
    return folder


def transforms(layers: Any = range(LAYERS), heads: int = HEADS, dim: int = DIM) -> Calibration:
    """Invertible transforms of no model in particular."""
    rng = np.random.default_rng(3)
    one = {
        n: KeyTransform(
            rng.normal(size=(heads, dim)).astype(np.float32),
            (np.eye(dim) + 0.3 * rng.normal(size=(heads, dim, dim)) / dim**0.5).astype(np.float32),
        )
        for n in layers
    }
    return Calibration(one, {"transform": "gm"})


def facts(folder: Path, digest: str = DIGEST, **cache: Any) -> Facts:
    """What recipe.yaml says of the transforms that lie in the folder."""
    fields = {"key": "int8", "value": "int8", "rotate": True, "seed": 0, "sinks": 4, "window": 64}
    return Facts(
        version=1,
        name="made",
        model=Model(name="tiny", digest=digest, layers=LAYERS, kv_heads=HEADS, head_dim=DIM),
        cache=Cache(**{**fields, "skip_layers": (), "layers": {}, **cache}),
        calibration=Calibrated(
            file=TRANSFORMS,
            sha256=file_digest(folder / TRANSFORMS),
            transform="gm",
            max_position=2048,
            tokens=4096,
            corpora=("english",),
        ),
        provenance=Provenance(kvant="0.1.0", date="2026-01-31", command="kvant calibrate tiny"),
    )


def recipe(folder: Path, calibration: Calibration | None = None, digest: str = DIGEST, **cache: Any) -> Path:
    """A recipe folder with these transforms."""
    folder.mkdir(parents=True, exist_ok=True)
    (calibration or transforms()).save(folder / TRANSFORMS)
    save(folder, facts(folder, digest, **cache))
    return folder
