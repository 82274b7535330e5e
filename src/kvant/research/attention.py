"""The attention function and mask that transformers knows as "kvant", and switching a model to them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import torch
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from kvant.errors import EngineError
from kvant.research.ticket import Ticket

if TYPE_CHECKING:
    from kvant.research.cache import KvantCache

NAME = "kvant"

log = logging.getLogger(__name__)

_OPEN: WeakKeyDictionary[PreTrainedModel, tuple[str, WeakSet[KvantCache]]] = WeakKeyDictionary()
"""Of each switched model the name of its own attention, and the caches that are open."""


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: Ticket,
    value: Ticket,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    output_attentions: bool | None = None,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """query (rows, heads, columns, D) to (rows, columns, heads, D); keys and values are in the pages.

    attention_mask (rows, all columns) says which columns are tokens. `EngineError` for what the kernels
    do not do.
    """
    if not (isinstance(key, Ticket) and isinstance(value, Ticket)):
        raise EngineError(
            "the model's attention is 'kvant' and needs a KvantCache: pass it as past_key_values with "
            "use_cache=True, or close() the model's caches to give it back its own attention"
        )
    refused = [
        name
        for name, given in (
            ("dropout", dropout),
            ("attention that is not causal", is_causal is False),
            ("a position bias", position_bias is not None),
            ("output_attentions=True", output_attentions),
            ("gradients (use torch.no_grad())", query.requires_grad),
        )
        if given
    ]
    if refused:
        raise EngineError(f"a KvantCache does not serve {', '.join(refused)}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out = key.layer.attend(
        module, query, key, value, attention_mask,
        scale=scale, sliding=sliding_window or 0, softcap=softcap or 0.0, sinks=s_aux,
    )  # fmt: skip
    return out, None


def mask(
    attention_mask: torch.Tensor | None = None, allow_is_causal_skip: bool = False, **other: Any
) -> torch.Tensor | None:
    """The padding mask itself: causality and sliding windows are the kernels' own."""
    if not allow_is_causal_skip:
        raise EngineError("a KvantCache serves causal attention only; this model asked for another mask")
    return attention_mask


def switch(model: PreTrainedModel, cache: KvantCache) -> None:
    """Set the model's attention to ours, and say so; `EngineError` if it cannot be set."""
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, mask)
    if model not in _OPEN:
        own = model.config._attn_implementation
        model.set_attn_implementation(NAME)
        if model.config._attn_implementation != NAME:
            raise EngineError(
                f"{type(model).__name__}: its attention cannot be set (it does not use AttentionInterface)"
            )
        log.warning(
            "%s: attention is 'kvant' instead of %r until its caches are closed", type(model).__name__, own
        )
        _OPEN[model] = own, WeakSet()
    _OPEN[model][1].add(cache)


def restore(model: PreTrainedModel, cache: KvantCache) -> None:
    """Give the model its own attention back when its last cache is closed."""
    if model in _OPEN:
        own, caches = _OPEN[model]
        caches.discard(cache)
        if not caches:
            del _OPEN[model]
            model.set_attn_implementation(own)
