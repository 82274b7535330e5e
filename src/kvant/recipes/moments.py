"""First and second moments of keys and queries: all that the calibrated transforms are made from.

Sums in float64, so that the mean of a biased key does not swallow its spread; kept in one
safetensors file, which is both the state a killed run goes on from and what every preset is made of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvant.errors import CalibrationError
from kvant.recipes.whole import write
from kvant.transforms.calibrated import Calibration, KeyTransform, diag, gm
from kvant.transforms.rotation import Rotation

VERSION = "moments-v1"
KINDS = {"gm": gm, "diag": diag}

Sums = NDArray[np.float64]


@dataclass
class Layer:
    """Sums over one layer's tokens, by KV head: k (H, D), k k^T and q q^T (H, D, D)."""

    key: Sums
    key_key: Sums
    query_query: Sums

    @classmethod
    def empty(cls, heads: int, dim: int) -> Layer:
        return cls(np.zeros((heads, dim)), np.zeros((heads, dim, dim)), np.zeros((heads, dim, dim)))


@dataclass
class Moments:
    """Sums over `tokens` tokens of `done` sequences, of every layer that has a cache of its own.

    `owners` says for every layer whose cache it reads: its own, or an earlier one's (Gemma 3n).
    """

    layers: dict[int, Layer]
    owners: dict[int, int] = field(default_factory=dict)
    tokens: int = 0
    done: int = 0

    def calibration(self, kind: str, seed: int, facts: dict[str, str]) -> Calibration:
        """Transforms of every layer and head, `gm` or `diag`; a layer without a cache has its owner's."""
        own = {number: self._transform(number, kind, seed) for number in sorted(self.layers)}
        return Calibration({layer: own[owner] for layer, owner in sorted(self.owners.items())}, facts)

    def _transform(self, number: int, kind: str, seed: int) -> KeyTransform:
        layer = self.layers[number]
        mean = layer.key / self.tokens
        covariance = layer.key_key / self.tokens - mean[:, :, None] * mean[:, None, :]
        query = layer.query_query / self.tokens
        if not (np.isfinite(covariance).all() and np.isfinite(query).all()):
            raise CalibrationError(f"layer {number}: keys or queries of the model are not finite")
        rotation = Rotation(seed, mean.shape[1])
        make = KINDS[kind]
        matrices = [
            make(covariance[head], query[head], rotation.signs(number, head, "key"))
            for head in range(len(mean))
        ]
        return KeyTransform(mean.astype(np.float32), np.stack(matrices))

    def save(self, path: Path, identity: str) -> None:
        """Write the sums, whole or not at all; `identity` names the model and the tokens."""
        from safetensors.numpy import save

        tensors = {
            f"{number}.{name}": np.ascontiguousarray(value)
            for number, layer in sorted(self.layers.items())
            for name, value in vars(layer).items()
        }
        state = {"version": VERSION, "identity": identity, "tokens": self.tokens, "done": self.done}
        state |= {"owners": {str(layer): owner for layer, owner in sorted(self.owners.items())}}
        write(path, save(tensors, {"kvant": json.dumps(state, sort_keys=True)}))

    @classmethod
    def load(cls, path: Path, identity: str) -> Moments | None:
        """What an earlier run left, None where there is nothing of these inputs or it is damaged."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                state = json.loads((file.metadata() or {}).get("kvant", "{}"))
                if (state.get("version"), state.get("identity")) != (VERSION, identity):
                    return None
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError):
            return None
        numbers = sorted({int(name.split(".")[0]) for name in tensors})
        layers = {
            n: Layer(*(tensors[f"{n}.{name}"] for name in ("key", "key_key", "query_query"))) for n in numbers
        }
        owners = {int(layer): owner for layer, owner in state["owners"].items()}
        return cls(layers, owners, state["tokens"], state["done"])
