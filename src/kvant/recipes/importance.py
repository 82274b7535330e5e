"""What the rounding of each key and value does to the output of attention: the weights of the moments.

Noise e_j on the score of key j moves the output o of a query by a_j e_j (v_j - o), to first order, and
noise d_j on value j by a_j d_j; a are the attention weights. Summed in squares over a calibration text,
a_j^2 |v_j - o|^2 says how much the noise of that query with that key matters, and a_j^2 that of that
value. Most pairs matter nothing: a head that looks at the sinks forgives every other key its noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

WINDOW = 64
"""Most recent tokens left out: the calibrated presets read them in 16 bits."""


class Importance(NamedTuple):
    """Of the pairs of some queries of one KV head's group with its keys; float32 tensors."""

    queries: Any  # (G, T)
    keys: Any  # (S,)
    values: Any  # (S,)


def importance(query: Any, key: Any, value: Any, allowed: Any, counted: Any, cap: float | None) -> Importance:
    """query (G, T, D), already scaled; key and value (S, D); masks (T, S): attended, and quantised then."""
    import torch

    scores = query @ key.T
    if cap:
        scores = torch.tanh(scores / cap) * cap
    weights = scores.masked_fill_(~allowed, float("-inf")).softmax(-1)
    out = weights @ value
    distance = (value * value).sum(-1) - 2 * (out @ value.T) + (out * out).sum(-1, keepdim=True)
    squared = weights.square_().masked_fill_(~counted, 0.0)
    noise = squared * distance.clamp_(min=0)
    return Importance(noise.sum(-1), noise.sum((0, 1)), squared.sum((0, 1)))
