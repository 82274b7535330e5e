"""Which layers a family of models has, from the fields of its config.json.

Sources: the configuration classes of transformers 5 (defaults, interleaving) and what vLLM 0.32 gives each
layer (`Attention.get_kv_cache_spec`, `MLAAttention.get_kv_cache_spec`). To add a family: a row in `FAMILIES`,
and a test with numbers computed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvant.config.words import near, show
from kvant.plan.config_json import Fields
from kvant.plan.geometry import Layer, alike, interleaved

Layers = tuple[Layer, ...]

MOST_LAYERS = 10_000
"""A plan goes through them one by one."""
FULL, LOCAL = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class Family:
    """`layers` reads the shape; `defaults` are those of the family's configuration class."""

    layers: Callable[[Fields], Layers]
    defaults: dict[str, Any] = field(default_factory=dict)
    norms: int = 2
    """Vectors of the hidden size that a layer has beside its matrices."""
    counted: bool = True
    """Whether its parameters can be counted from config.json (`parameters`)."""


def head_dim(fields: Fields) -> int:
    written = fields.get("head_dim")
    if written is not None:
        return fields.whole("head_dim")
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    if hidden % heads:
        raise fields.wrong("num_attention_heads", f"{heads} does not divide hidden_size {hidden}")
    return hidden // heads


def layer_count(fields: Fields) -> int:
    return fields.whole("num_hidden_layers", most=MOST_LAYERS)


def _shape(fields: Fields) -> tuple[int, Layer]:
    heads = fields.whole("num_attention_heads")
    kv_heads = fields.whole("num_key_value_heads", heads)
    if heads % kv_heads:
        raise fields.wrong("num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}")
    return layer_count(fields), Layer(kv_heads, head_dim(fields))


def _all_alike(fields: Fields) -> Layers:
    """Every layer looks at everything, or, where sliding_window is set, at as much of it."""
    count, full = _shape(fields)
    if (kinds := fields.names("layer_types", count, (FULL, LOCAL))) and LOCAL in kinds:
        return interleaved([one == LOCAL for one in kinds], full, fields.whole("sliding_window"))
    if kinds or fields.get("sliding_window") is None:
        return alike(count, full)
    return alike(count, Layer(full.kv_heads, full.head_dim, fields.whole("sliding_window")))


def _where_used(fields: Fields) -> Layers:
    """Qwen: sliding_window counts only where use_sliding_window does, from max_window_layers on."""
    count, full = _shape(fields)
    if not fields.flag("use_sliding_window", False) or fields.get("sliding_window") is None:
        return alike(count, full)
    first = fields.whole("max_window_layers", 28, least=0)
    return interleaved([n >= first for n in range(count)], full, fields.whole("sliding_window"))


def _every(fields: Fields) -> Layers:
    """One layer in `sliding_window_pattern` looks at everything, the others at a window."""
    count, full = _shape(fields)
    kinds = fields.names("layer_types", count, (FULL, LOCAL))
    if kinds is None:
        every = fields.whole("sliding_window_pattern", fields.get("_sliding_window_pattern", 2))
        kinds = [FULL if (n + 1) % every == 0 else LOCAL for n in range(count)]
    return interleaved([one == LOCAL for one in kinds], full, fields.whole("sliding_window"))


def _shared(fields: Fields) -> Layers:
    """Gemma 3n: the last layers read the cache of earlier ones."""
    layers = _every(fields)
    sharing = fields.whole("num_kv_shared_layers", 0, least=0)
    own = len(layers) - sharing
    return tuple(
        one if n < own else Layer(one.kv_heads, one.head_dim, one.window, shared=True)
        for n, one in enumerate(layers)
    )


def _latent(fields: Fields) -> Layers:
    """DeepSeek's MLA: a latent vector and one rotary key a token, whatever the number of heads."""
    width = fields.whole("kv_lora_rank") + fields.whole("qk_rope_head_dim")
    return alike(layer_count(fields), Layer(1, width, latent=True))


_GEMMA3 = {
    "head_dim": 256, "num_attention_heads": 8, "num_key_value_heads": 4, "num_hidden_layers": 26,
    "hidden_size": 2304, "intermediate_size": 9216, "vocab_size": 262208, "sliding_window": 4096,
    "sliding_window_pattern": 6, "max_position_embeddings": 131072, "tie_word_embeddings": True,
}  # fmt: skip
_GEMMA2 = {"sliding_window_pattern": 2, "sliding_window": 4096, "tie_word_embeddings": True, "head_dim": 256}
_GEMMA3N = {
    **_GEMMA3, "sliding_window_pattern": 5, "sliding_window": 512, "num_key_value_heads": 2,
    "num_kv_shared_layers": 15, "max_position_embeddings": 32768,
}  # fmt: skip
_COHERE2 = {"sliding_window_pattern": 4, "sliding_window": 4096, "tie_word_embeddings": True}

FAMILIES: dict[str, Family] = {
    "llama": Family(_all_alike),
    "mistral": Family(_all_alike),
    "ministral": Family(_all_alike),
    "mixtral": Family(_all_alike),
    "phi3": Family(_all_alike),
    "granite": Family(_all_alike),
    "smollm3": Family(_all_alike),
    "qwen2": Family(_where_used),
    "qwen2_moe": Family(_where_used),
    "qwen3": Family(_where_used),
    "qwen3_moe": Family(_where_used),
    "gemma": Family(_all_alike, {"tie_word_embeddings": True, "head_dim": 256}),
    "gemma2": Family(_every, _GEMMA2, norms=4),
    "gemma3": Family(_every, _GEMMA3, norms=4),
    "gemma3_text": Family(_every, _GEMMA3, norms=4),
    "gemma3n_text": Family(_shared, _GEMMA3N, norms=4, counted=False),
    "cohere2": Family(_every, _COHERE2),
    "gpt_oss": Family(_every, {"sliding_window_pattern": 2, "sliding_window": 128}, counted=False),
    "deepseek_v2": Family(_latent),
    "deepseek_v3": Family(_latent),
    "kimi_k2": Family(_latent),
}


def find(fields: Fields) -> Family:
    """The family of a config.json; `ConfigError` for one whose layers a plan does not know."""
    name = fields.get("model_type")
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    close = near(str(name), FAMILIES) if name else None
    hint = f"did you mean {close}? " if close else ""
    raise fields.wrong(
        "model_type",
        f"a plan does not know the layers of {show(name)}; {hint}known: {', '.join(FAMILIES)}; or give the "
        "shape instead of the model (--shape layers=36,kv_heads=8,head_dim=128,parameters=4e9)",
    )
