"""Reading the address, shape and strides of an array, numpy's or torch's, without importing torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kvant.errors import KernelError

Array: TypeAlias = Any
"""A numpy array or a torch CPU tensor. numpy has no bfloat16: use torch, or float32."""

FLOATS = {"float32": 0, "bfloat16": 1, "float16": 2}
"""The native kernels' numbers for the types of queries, keys, values and outputs."""


@dataclass(frozen=True, slots=True)
class View:
    """Address in memory, shape, strides in elements, and the name of the element type."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


def view(name: str, array: Array) -> View:
    """Describe an array; `KernelError` if it is not in this process's main memory."""
    if isinstance(array, np.ndarray):
        strides = tuple(s // array.itemsize for s in array.strides)
        return View(array.ctypes.data, array.shape, strides, array.dtype.name)
    if hasattr(array, "data_ptr"):
        if array.device.type != "cpu":
            raise KernelError(f"{name}: a tensor on {array.device}; the CPU kernels read main memory only")
        return View(
            array.data_ptr(), tuple(array.shape), array.stride(), str(array.dtype).removeprefix("torch.")
        )
    raise KernelError(f"{name}: expected a numpy array or a torch tensor, got {type(array).__name__}")


def contiguous(name: str, array: Array, dtype: str, shape: tuple[int | None, ...]) -> int:
    """Check type, shape (None = any size) and contiguity; return the address."""
    v = view(name, array)
    _match(name, v, dtype, shape)
    expected = 1
    for size, stride in zip(reversed(v.shape), reversed(v.strides), strict=True):
        if size > 1 and stride != expected:
            raise KernelError(f"{name}: must be contiguous, strides are {v.strides} for shape {v.shape}")
        expected *= size
    return v.address


def tokens(name: str, array: Array, dtype: str, heads: int, head_dim: int) -> tuple[int, int, int]:
    """Check [tokens][heads][head_dim] with free token stride; return (address, stride, tokens)."""
    v = view(name, array)
    _match(name, v, dtype, (None, heads, head_dim))
    if v.strides[2] != 1 or (heads > 1 and v.strides[1] != head_dim):
        raise KernelError(f"{name}: heads of a token must be contiguous, strides are {v.strides}")
    return v.address, v.strides[0] if v.shape[0] > 1 else heads * head_dim, v.shape[0]


def _match(name: str, v: View, dtype: str, shape: tuple[int | None, ...]) -> None:
    if v.dtype != dtype:
        raise KernelError(f"{name}: expected {dtype}, got {v.dtype}")
    if len(v.shape) != len(shape) or any(
        want not in (None, got) for want, got in zip(shape, v.shape, strict=False)
    ):
        wanted = ", ".join("*" if size is None else str(size) for size in shape)
        raise KernelError(f"{name}: expected shape ({wanted}), got {v.shape}")
