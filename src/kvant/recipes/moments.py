"""Weighted moments of keys, queries and values: all that the calibrated transforms are made from.

Sums in float64, so that the mean of a biased key does not swallow its spread; kept in one
safetensors file, which is both the state a killed run goes on from and what every preset is made of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kvant.errors import CalibrationError
from kvant.transforms.calibrated import Calibration, KeyTransform, ValueTransform, diag, gm, spread
from kvant.transforms.rotation import Rotation
from kvant.whole import write

VERSION = "moments-v2"
KINDS = {"gm": gm, "diag": diag}

Sums = NDArray[np.float64]


@dataclass
class Layer:
    """Weighted sums over one layer's tokens, by KV head: k, v (H, D), k k^T, v v^T, q q^T (H, D, D).

    The weights of the three, importance.py's, are summed in (H,).
    """

    key: Sums
    key_key: Sums
    key_weight: Sums
    query_query: Sums
    query_weight: Sums
    value: Sums
    value_value: Sums
    value_weight: Sums

    @classmethod
    def empty(cls, heads: int, dim: int) -> Layer:
        vector, matrix, number = (heads, dim), (heads, dim, dim), (heads,)
        shapes = (vector, matrix, number, matrix, number, vector, matrix, number)
        return cls(*(np.zeros(shape) for shape in shapes))


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
        own = {number: self._keys(number, kind, seed) for number in sorted(self.layers)}
        values = {number: self._values(number, seed) for number in self.layers} if kind == "gm" else {}
        owners = sorted(self.owners.items())
        return Calibration(
            {layer: own[owner] for layer, owner in owners},
            facts,
            {layer: values[owner] for layer, owner in owners if values},
        )

    def _keys(self, number: int, kind: str, seed: int) -> KeyTransform:
        layer = self.layers[number]
        mean, covariance = _spread(number, layer.key, layer.key_key, layer.key_weight)
        query = layer.query_query / layer.query_weight[:, None, None]
        if not np.isfinite(query).all():
            raise CalibrationError(f"layer {number}: queries of the model are not finite")
        rotation = Rotation(seed, mean.shape[1])
        make = KINDS[kind]
        matrices = [
            make(covariance[head], query[head], rotation.signs(number, head, "key"))
            for head in range(len(mean))
        ]
        return KeyTransform(mean.astype(np.float32), np.stack(matrices))

    def _values(self, number: int, seed: int) -> ValueTransform:
        layer = self.layers[number]
        mean, covariance = _spread(number, layer.value, layer.value_value, layer.value_weight)
        rotation = Rotation(seed, mean.shape[1])
        matrices = [
            spread(covariance[head], rotation.signs(number, head, "value")) for head in range(len(mean))
        ]
        return ValueTransform(mean.astype(np.float32), np.stack(matrices))

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
        layers = {n: Layer(*(tensors[f"{n}.{one.name}"] for one in fields(Layer))) for n in numbers}
        owners = {int(layer): owner for layer, owner in state["owners"].items()}
        return cls(layers, owners, state["tokens"], state["done"])


def _spread(number: int, first: Sums, second: Sums, weight: Sums) -> tuple[Sums, Sums]:
    """Mean (H, D) and covariance (H, D, D) from weighted sums."""
    mean = first / weight[:, None]
    covariance = second / weight[:, None, None] - mean[:, :, None] * mean[:, None, :]
    if not np.isfinite(covariance).all():
        raise CalibrationError(f"layer {number}: keys or values of the model are not finite")
    return mean, covariance
