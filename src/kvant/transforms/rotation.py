"""The seeded randomised Hadamard rotation: y = H diag(s) x, s = +-1.

The signs are a function of (seed, layer, global KV head, side) alone, drawn from SHAKE-256 so that
every process, library version and machine gets the same ones. `layer` is the layer that owns the
cache, so a layer that reads another layer's pages reads them with the writer's rotation.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvant.transforms.hadamard import Floats, mix

ROTATION_VERSION = "hadamard-hartley-shake256-v1"

Side = Literal["key", "value"]


@dataclass(frozen=True)
class Rotation:
    """A family of rotations, one for each (layer, global KV head, side)."""

    seed: int
    head_dim: int

    def signs(self, layer: int, head: int, side: Side) -> NDArray[np.float32]:
        """The +-1 diagonal of one head, shape (head_dim,)."""
        text = f"kvant:{ROTATION_VERSION}:{self.seed}:{layer}:{head}:{side}:{self.head_dim}"
        raw = hashlib.shake_256(text.encode()).digest((self.head_dim + 7) // 8)
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[: self.head_dim]
        return (1 - 2 * bits.astype(np.float32)).astype(np.float32)

    def table(self, layer: int, heads: range, side: Side) -> NDArray[np.float32]:
        """The signs of several heads, shape (len(heads), head_dim), contiguous."""
        return np.stack([self.signs(layer, head, side) for head in heads])


def rotate(x: Floats, signs: Floats) -> Floats:
    """Rotate (..., D) by the signs (D,) or broadcastable."""
    return mix(x * signs.astype(x.dtype))


def unrotate(y: Floats, signs: Floats) -> Floats:
    """The inverse of `rotate`."""
    return mix(y) * signs.astype(y.dtype)
