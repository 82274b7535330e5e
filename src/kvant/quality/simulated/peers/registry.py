"""Every peer by name: its builder, and whether it is fitted to a calibration text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kvant.quality.simulated.moments import Moments
from kvant.quality.simulated.peers import fp8, ggml
from kvant.quality.simulated.peers.kivi import kivi
from kvant.quality.simulated.peers.oscar import oscar
from kvant.quality.simulated.peers.ours import ours
from kvant.quality.simulated.scheme import Scheme, Shape

Build = Callable[[str, Shape, list[Moments]], Scheme]

PEERS: dict[str, Build] = {
    "fp8": fp8.plain,
    "fp8-per-head": fp8.per_head,
    "q8_0": ggml.plain_q8_0,
    "int8-rotated": partial(ours, "int8", "int8"),
    "kivi4": partial(kivi, 4),
    "q4_0-rotated": ggml.rotated_q4_0,
    "int4-rotated": partial(ours, "int4", "int4"),
    "turboquant4": partial(ours, "codebook4", "codebook4"),
    "founding": partial(ours, "codebook3+jl", "codebook4"),
    "turboquant3": partial(ours, "codebook3", "codebook3"),
    "turboquant2+1": partial(ours, "codebook2+jl", "codebook3"),
    "kivi2": partial(kivi, 2),
    "oscar2": oscar,
}
"""From the widest to the narrowest."""

FITTED = frozenset({"fp8-per-head", "oscar2"})
"""Peers that read moments; the others are given none."""
