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
from kvant.recipes.importance import WINDOW, importance
from kvant.recipes.moments import Layer, Moments
from kvant.recipes.plan import SINKS, Span

NAME = "kvant_moments"
STRIDE = 4
"""Every so many queries are asked what matters: their keys are all of them."""
LEAVEN = 0.02
CHUNK = 1024
"""Tokens in one forward pass: memory stays flat however long the sequence is."""


Keep = Callable[[int, Any, Any], None]
"""Number of a layer, keys and values (H, tokens, D)."""


class Observer:
    """Runs one model over token sequences and keeps the sums."""

    def __init__(self, model: Any, moments: Moments) -> None:
        self.model, self.moments = model, moments
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
        if self._keep is None:
            self._add(owner, query, key, value, mask, options)
        elif shared is None:
            self._keep(number, key[0], value[0])
        if options.get("softcap"):
            return _capped(query, key, value, mask, options), None
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        return sdpa_attention_forward(module, query, key, value, mask, **options)

    def _add(self, owner: int, query: Any, key: Any, value: Any, mask: Any, options: dict[str, Any]) -> None:
        """Every `STRIDE`-th query with all keys that it attends to."""
        import torch

        heads, length = key.shape[1], key.shape[2]
        at = torch.arange(length - query.shape[2], length, device=key.device)[::STRIDE, None]
        place = torch.arange(length, device=key.device)[None]
        allowed = place <= at if mask is None else _allowed(mask)[::STRIDE]
        counted = allowed & (place >= SINKS) & (place <= at - WINDOW)
        layer = self.moments.layers.setdefault(owner, Layer.empty(heads, key.shape[-1]))
        scale = options.get("scaling") or 1 / math.sqrt(query.shape[-1])
        asked = query[0, :, ::STRIDE].float().unflatten(0, (heads, -1))
        for head in range(heads):
            k, v, q = key[0, head].float(), value[0, head].float(), asked[head]
            found = importance(q * scale, k, v, allowed, counted, options.get("softcap"))
            by_query = _leavened(found.queries.flatten(), None)
            by_key, by_value = (_leavened(one, SINKS) for one in (found.keys, found.values))
            _moments(q.flatten(0, 1), by_query, layer.query_query[head], layer.query_weight[head : head + 1])
            _moments(k, by_key, layer.key_key[head], layer.key_weight[head : head + 1], layer.key[head])
            _moments(
                v, by_value, layer.value_value[head], layer.value_weight[head : head + 1], layer.value[head]
            )


def _allowed(mask: Any) -> Any:
    """(1, 1, T, S) as transformers makes it, to (T, S) of bool."""
    import torch

    return mask[0, 0] if mask.dtype == torch.bool else mask[0, 0] == 0


def _leavened(weights: Any, skip: int | None) -> Any:
    """Weights with a little of their mean for everyone, so that no direction is known from nobody."""
    even = weights.mean() if weights.sum() > 0 else 1.0
    some = weights + LEAVEN * even
    if skip is not None:
        some[:skip] = 0
    return some.double()


def _moments(x: Any, weights: Any, second: Any, total: Any, first: Any = None) -> None:
    """Add weighted sums over x (N, D) to numpy arrays, in place."""
    x = x.double()
    second += ((x * weights[:, None]).T @ x).cpu().numpy()
    total += float(weights.sum())
    if first is not None:
        first += (weights @ x).cpu().numpy()


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
