"""Attention as it comes out of a simulated cache, in float32, for one sequence.

A query at position p reads position j in 16 bits or from its codes by the rule of the layer's `Keep`,
never by how the tokens arrived: prefill and decoding are the same here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch

from kvant.quality.simulated.scheme import Keep, Layer, sixteen

CHUNK = 256
"""Queries at a time: the scores of a chunk fit the processor's cache better than those of all."""


def attend(
    layer: Layer,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    sliding: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Causal attention of query (Hq, T, D) over key and value (H, T, D): float32 (Hq, T, D).

    sliding: positions a query sees, itself included (0: all). softcap: bound of the scores (0: none).
    sinks: logits (Hq,) that only enter the denominator.
    """
    heads, tokens, dim = key.shape
    turn = layer.transform
    q = _times(query.float().reshape(heads, -1, dim), turn.query).reshape(heads, -1, tokens, dim)
    k = _times(key.float() if turn.mean is None else key.float() - turn.mean, turn.key)
    v = _times(value.float() if turn.level is None else value.float() - turn.level, turn.value)
    coded_k, coded_v = layer.store(k, v)
    exact_k, exact_v = sixteen(k), sixteen(v)
    out = torch.empty_like(q)
    for part in _parts(layer.keys, layer.values, tokens, sliding):
        rows, columns = slice(part.start, part.stop), slice(part.first, part.stop)
        asked = (q[:, :, rows] * scale).reshape(heads, -1, dim)
        scores = (asked @ coded_k[:, columns].mT).view(heads, -1, *part.hidden.shape)
        if part.keys is not None:
            mask, where = part.keys
            exact = (asked @ exact_k[:, part.first + where].mT).view(*scores.shape[:3], -1)
            scores[..., where] = torch.where(mask, exact, scores[..., where])
        if softcap:
            scores = torch.tanh(scores / softcap) * softcap
        weights = _softmax(scores.masked_fill_(part.hidden, float("-inf")), sinks)
        read = 0
        if part.values is not None:
            mask, where = part.values
            near = weights[..., where]
            read = (near * mask).flatten(1, 2) @ exact_v[:, part.first + where]
            weights[..., where] = near * ~mask
        read = read + weights.flatten(1, 2) @ coded_v[:, columns]
        out[:, :, rows] = read.view(heads, -1, part.stop - part.start, dim)
    given = _times(out.reshape(heads, -1, dim), turn.output)
    return (given if turn.level is None else given + turn.level).reshape(-1, tokens, dim)


Exact = tuple[torch.Tensor, torch.Tensor]
"""Who reads which columns in 16 bits, (queries, columns) bool, and the columns."""


@dataclass(frozen=True)
class Part:
    """Queries start to stop over the columns first to stop; hidden and exact are the same in every head."""

    start: int
    stop: int
    first: int
    hidden: torch.Tensor
    keys: Exact | None
    values: Exact | None


@lru_cache(maxsize=16)
def _parts(keys: Keep, values: Keep, tokens: int, sliding: int) -> tuple[Part, ...]:
    """The same for all layers of a kind, so made once."""
    found = []
    for start in range(0, tokens, CHUNK):
        stop = min(start + CHUNK, tokens)
        first = max(0, start - sliding + 1) if sliding else 0
        p, j = torch.arange(start, stop), torch.arange(first, stop)
        hidden = j[None] > p[:, None]
        if sliding:
            hidden = hidden | (j[None] <= p[:, None] - sliding)
        found.append(
            Part(start, stop, first, hidden, *(_exact(k.mask(p, j) & ~hidden) for k in (keys, values)))
        )
    return tuple(found)


def _exact(mask: torch.Tensor) -> Exact | None:
    columns = mask.any(0).nonzero()[:, 0]
    return (mask[:, columns], columns) if len(columns) else None


def _times(x: torch.Tensor, matrix: torch.Tensor | None) -> torch.Tensor:
    return x if matrix is None else x @ matrix


def _softmax(scores: torch.Tensor, sinks: torch.Tensor | None) -> torch.Tensor:
    """Over the last axis of (H, group, queries, keys)."""
    if sinks is None:
        return torch.softmax(scores, -1)
    column = sinks.float().view(*scores.shape[:2], 1, 1).expand(*scores.shape[:3], 1)
    return torch.softmax(torch.cat((scores, column), -1), -1)[..., :-1]
