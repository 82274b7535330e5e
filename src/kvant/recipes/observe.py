"""Sees every query and key that a transformers model attends with, after rotary embedding.

Registered as an attention function: the model calls it instead of its own, it adds the new tokens to
the moments and goes on as scaled dot-product attention. Models whose attention does not come by are
refused with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kvant.errors import CalibrationError
from kvant.recipes.moments import Layer, Moments
from kvant.recipes.plan import SINKS, Span

NAME = "kvant_moments"
CHUNK = 1024
"""Tokens in one forward pass: memory stays flat however long the sequence is."""


Keep = Callable[[int, Any, Any], None]
"""Number of a layer, keys and values (H, tokens, D)."""


class Observer:
    """Runs one model over token sequences and keeps the sums."""

    def __init__(self, model: Any, moments: Moments) -> None:
        self.model, self.moments = model, moments
        self._skip = 0
        self._keep: Keep | None = None
        _register(self._attend)
        model.set_attn_implementation(NAME)

    @contextmanager
    def showing(self, keep: Keep) -> Iterator[None]:
        """Show keys and values to `keep` instead of adding to the moments."""
        self._keep, moments, self.moments = keep, self.moments, Moments({})
        try:
            yield
        finally:
            self._keep, self.moments = None, moments

    def read(self, span: Span, step: Callable[[int], None] = lambda tokens: None) -> None:
        """One sequence; `step` gets the number of tokens of each forward pass."""
        import torch
        from transformers import DynamicCache

        # Without the configuration every layer keeps every key; masks say which are attended. A Llama whose
        # configuration names a sliding window that it does not use would otherwise lose keys.
        cache = DynamicCache()
        with torch.inference_mode():
            for start in range(0, len(span.tokens), CHUNK):
                part = torch.from_numpy(span.tokens[start : start + CHUNK])[None].to(self.model.device)
                place = torch.from_numpy(span.positions[start : start + CHUNK])[None].to(part.device)
                self._skip = max(0, SINKS - start)
                self.model.base_model(
                    input_ids=part, position_ids=place, past_key_values=cache, use_cache=True
                )
                step(part.shape[1])
        self.moments.tokens += len(span.tokens) - SINKS
        self.moments.done += 1

    def _attend(self, module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        """query (1, Hq, T, D); key and value (1, H, past + T, D); returns what transformers expects."""
        number = module.layer_idx
        shared = getattr(module, "kv_shared_layer_index", None)
        owner = number if shared is None else shared
        self.moments.owners[number] = owner
        if key.shape[-1] != query.shape[-1] or value.shape[-1] != key.shape[-1]:
            raise CalibrationError(
                f"layer {number} has queries, keys and values of {query.shape[-1]}, {key.shape[-1]} and "
                f"{value.shape[-1]} elements; a Kvant cache needs one size"
            )
        if options.get("s_aux") is not None:
            raise CalibrationError(f"layer {number} has attention sinks of its own (s_aux)")
        empty = Layer.empty(key.shape[1], key.shape[-1])
        layer = self.moments.layers.setdefault(owner, empty)
        fresh = query.shape[2] - self._skip
        if shared is None:
            keys = key[0, :, -fresh:].double()
            layer.key += keys.sum(1).cpu().numpy()
            layer.key_key += (keys.transpose(1, 2) @ keys).cpu().numpy()
            if self._keep is not None:
                self._keep(number, key[0], value[0])
        asked = query[0, :, -fresh:].double().unflatten(0, (key.shape[1], -1)).flatten(1, 2)
        layer.query_query += (asked.transpose(1, 2) @ asked).cpu().numpy()
        if options.get("softcap"):
            return _capped(query, key, value, mask, options), None
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **options)


def _capped(query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]) -> Any:
    """Attention with soft-capped scores (Gemma 2), which torch's own has not."""
    import torch

    cap, group = options["softcap"], query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(group, 1).transpose(2, 3)
    scores = torch.tanh(scores * (options.get("scaling") or 1 / math.sqrt(query.shape[-1])) / cap) * cap
    if mask is None:
        past = key.shape[2] - query.shape[2]
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril(past)
        scores = scores.masked_fill(~allowed, float("-inf"))
    else:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights = scores.float().softmax(-1).to(value.dtype)
    return (weights @ value.repeat_interleave(group, 1)).transpose(1, 2).contiguous()


def _register(attend: Any) -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
