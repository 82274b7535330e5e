"""Calibrated transforms: y = (x - mean) M is stored, of keys and of values.

Keys are read by q N with N M^T = I: scores are unchanged but for q . mean, which is the same for every
key, so softmax ignores it. Values are given back by o M^-1 + mean, because weights sum to one. `gm` (the
geometric mean of where keys vary and what queries ask) spreads quantisation noise so that the queries
of the calibration text see least of it; `diag` is its diagonal shadow. One file holds the transforms of
all layers of one model; inverses are computed when it is loaded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kvant import whole
from kvant.errors import CalibrationError
from kvant.transforms.rotation import rotate

CALIBRATION_VERSION = "calibration-v2"
METADATA = "kvant"
TENSOR = re.compile(r"layers\.(0|[1-9][0-9]*)\.(?:value_)?(mean|matrix)")

QUERY_FLOOR = 0.01
"""What directions no query asked for still count, in units of the mean eigenvalue of W."""
PRODUCT_FLOOR = 1e-4
DIAGONAL_FLOOR = 0.05
VALUE_FLOOR = 0.3
"""High, because values of other texts lie elsewhere."""

Matrix = NDArray[np.float64]


def gm(key_covariance: Matrix, query_moment: Matrix, signs: NDArray[np.float32]) -> NDArray[np.float32]:
    """M (D, D) of one KV head from cov(k), E[q q^T] over its query heads, and the signs of its rotation.

    W^(1/2) C W^(1/2) = P L P^T;  M^T = R L^(-1/4) P^T W^(1/2).
    """
    w = _floored(query_moment, QUERY_FLOOR)
    values, vectors = np.linalg.eigh(w)
    root = (vectors * np.sqrt(values)) @ vectors.T
    spread, axes = np.linalg.eigh(_floored(root @ key_covariance @ root, PRODUCT_FLOOR))
    return rotate(root @ axes * spread**-0.25, signs.astype(np.float64)).astype(np.float32)


def spread(value_covariance: Matrix, signs: NDArray[np.float32]) -> NDArray[np.float32]:
    """M (D, D) of the values of one KV head: `gm` where every direction of the output counts alike."""
    variance, axes = np.linalg.eigh(_floored(value_covariance, VALUE_FLOOR))
    return rotate(axes * variance**-0.25, signs.astype(np.float64)).astype(np.float32)


def diag(key_covariance: Matrix, query_moment: Matrix, signs: NDArray[np.float32]) -> NDArray[np.float32]:
    """M (D, D) that only scales channels before the rotation: few tokens are enough to know it."""
    c = np.diagonal(_floored(key_covariance, DIAGONAL_FLOOR))
    w = np.diagonal(_floored(query_moment, DIAGONAL_FLOOR))
    return rotate(np.diag((w / c) ** 0.25), signs.astype(np.float64)).astype(np.float32)


def _floored(matrix: Matrix, share: float) -> Matrix:
    mean = np.trace(matrix) / len(matrix)
    return matrix + share * (mean if mean > 0 else 1.0) * np.eye(len(matrix))


@dataclass(frozen=True)
class Transform:
    """Of some KV heads of one layer: mean (H, D) and matrix (H, D, D), float32."""

    mean: NDArray[np.float32]
    matrix: NDArray[np.float32]

    def stored(self, x: NDArray[np.floating]) -> NDArray[np.floating]:
        """(tokens, H, D) to (tokens, H, D)."""
        found: NDArray[np.floating] = np.einsum("thd,hde->the", x - self.mean, self.matrix.astype(x.dtype))
        return found

    def _by_group(self, x: NDArray[np.floating], matrix: NDArray[np.float32]) -> NDArray[np.floating]:
        """(tokens, query heads, D), heads of a group together, to (tokens, H, group, D)."""
        heads, dim = self.mean.shape
        found: NDArray[np.floating] = np.einsum(
            "thgd,hde->thge", x.reshape(len(x), heads, -1, dim), matrix.astype(x.dtype)
        )
        return found


class KeyTransform(Transform):
    """Of keys, and of the queries that read them."""

    @cached_property
    def query(self) -> NDArray[np.float32]:
        """N = M^(-T)."""
        inverse = np.linalg.inv(self.matrix.astype(np.float64))
        return np.ascontiguousarray(inverse.transpose(0, 2, 1), np.float32)

    def queries(self, query: NDArray[np.floating]) -> NDArray[np.floating]:
        """(tokens, query heads, D) to the space of the stored keys."""
        return self._by_group(query, self.query).reshape(query.shape)


class ValueTransform(Transform):
    """Of values, and of the outputs that are sums of them."""

    @cached_property
    def output(self) -> NDArray[np.float32]:
        """M^(-1)."""
        return np.ascontiguousarray(np.linalg.inv(self.matrix.astype(np.float64)), np.float32)

    def outputs(self, out: NDArray[np.floating]) -> NDArray[np.floating]:
        """Weighted sums of stored values (tokens, query heads, D) to those of the model's values."""
        return (self._by_group(out, self.output) + self.mean[:, None].astype(out.dtype)).reshape(out.shape)


T = TypeVar("T", bound=Transform)


@dataclass(frozen=True)
class Calibration:
    """Transforms of every layer of a model (all its KV heads), and where they come from.

    `values` has every layer of `layers`, or none: then values are only rotated.
    """

    layers: Mapping[int, KeyTransform]
    facts: Mapping[str, str]
    values: Mapping[int, ValueTransform] = field(default_factory=dict)

    def of(self, layer: int, heads: range, head_dim: int) -> KeyTransform:
        """Keys of one rank's heads; `CalibrationError` when the file does not cover them."""
        return self._of(self.layers, layer, heads, head_dim)

    def values_of(self, layer: int, heads: range, head_dim: int) -> ValueTransform | None:
        """Values of one rank's heads; None where they are only rotated."""
        return self._of(self.values, layer, heads, head_dim) if self.values else None

    def _of(self, layers: Mapping[int, T], layer: int, heads: range, head_dim: int) -> T:
        found = layers.get(layer)
        if found is None:
            raise CalibrationError(f"the calibration covers layers {_spans(self.layers)}, not layer {layer}")
        if heads.stop > len(found.mean):
            raise CalibrationError(
                f"layer {layer}: the calibration covers {len(found.mean)} KV heads, not head {heads.stop - 1}"
            )
        if found.mean.shape[1] != head_dim:
            raise CalibrationError(
                f"layer {layer}: calibrated for head_dim {found.mean.shape[1]}, the model's is {head_dim}"
            )
        part = slice(heads.start, heads.stop)
        mean: NDArray[np.float32] = np.ascontiguousarray(found.mean[part])
        return type(found)(mean, np.ascontiguousarray(found.matrix[part]))

    def save(self, path: Path) -> None:
        """Write a safetensors file, whole or not at all."""
        from safetensors.numpy import save

        tensors = {}
        for layer, one in sorted(self.layers.items()):
            tensors[f"layers.{layer}.mean"] = np.ascontiguousarray(one.mean, np.float32)
            tensors[f"layers.{layer}.matrix"] = np.ascontiguousarray(one.matrix, np.float32)
        for layer, values in sorted(self.values.items()):
            tensors[f"layers.{layer}.value_mean"] = np.ascontiguousarray(values.mean, np.float32)
            tensors[f"layers.{layer}.value_matrix"] = np.ascontiguousarray(values.matrix, np.float32)
        # One entry: safetensors writes several in an order that changes from run to run, and the file's
        # digest is pinned.
        facts = json.dumps({**self.facts, "version": CALIBRATION_VERSION}, sort_keys=True)
        whole.write(path, save(tensors, {METADATA: facts}))

    @classmethod
    def load(cls, path: Path) -> Calibration:
        """`CalibrationError` names a file that is missing, damaged, of another version or not finite."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "numpy") as file:
                facts = _facts(path, file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise CalibrationError(f"{path}: cannot be read: {error}") from error
        if facts.pop("version", None) != CALIBRATION_VERSION:
            raise CalibrationError(f"{path}: is no {CALIBRATION_VERSION} file; run `kvant calibrate` again")
        _known(path, tensors)
        values = {n: x for n, x in tensors.items() if ".value_" in n}
        keys = {n: x for n, x in tensors.items() if n not in values}
        made = cls(
            {layer: KeyTransform(*parts) for layer, *parts in _layers(path, keys, "")},
            facts,
            {layer: ValueTransform(*parts) for layer, *parts in _layers(path, values, "value_")},
        )
        if made.values and made.values.keys() != made.layers.keys():
            raise CalibrationError(f"{path}: value transforms of some layers only")
        return made


def _facts(path: Path, metadata: Mapping[str, str]) -> dict[str, str]:
    try:
        facts = json.loads(metadata.get(METADATA, "{}"))
        return {str(name): str(value) for name, value in facts.items()}
    except (ValueError, AttributeError) as error:
        raise CalibrationError(f"{path}: its metadata cannot be read: {error}") from None


def _known(path: Path, tensors: Mapping[str, NDArray[np.float32]]) -> None:
    for name in tensors:
        if not TENSOR.fullmatch(name):
            raise CalibrationError(
                f"{path}: tensor {name!r} is none of layers.N.mean, matrix, value_mean and value_matrix"
            )


def _layers(
    path: Path, tensors: Mapping[str, NDArray[np.float32]], side: str
) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
    """Number, mean and matrix of each layer."""
    for layer in sorted({int(name.split(".")[1]) for name in tensors}):
        names = [f"layers.{layer}.{side}{part}" for part in ("mean", "matrix")]
        missing = next((name for name in names if name not in tensors), None)
        if missing:
            raise CalibrationError(f"{path}: layer {layer} has no tensor {missing}")
        mean, matrix = tensors[names[0]], tensors[names[1]]
        if mean.ndim != 2 or matrix.shape != (*mean.shape, mean.shape[1]):
            raise CalibrationError(
                f"{path}: layer {layer}: mean {mean.shape} and matrix {matrix.shape} "
                "are not (H, D) and (H, D, D)"
            )
        for part, values in (("mean", mean), ("matrix", matrix)):
            if values.dtype != np.float32:
                raise CalibrationError(f"{path}: layer {layer}: {part} is {values.dtype}, not float32")
            if not np.isfinite(values).all():
                raise CalibrationError(f"{path}: layer {layer}: {part} has numbers that are not finite")
        for head, one in enumerate(matrix):
            if np.linalg.matrix_rank(one.astype(np.float64)) < len(one):
                raise CalibrationError(f"{path}: layer {layer}: matrix of head {head} cannot be inverted")
        yield layer, mean, matrix


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hex."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error}") from error


def _spans(numbers: Mapping[int, object]) -> str:
    return json.dumps(sorted(numbers)) if numbers else "none"
