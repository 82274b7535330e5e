"""Reading the address, shape and strides of an array, numpy's or torch's, without importing torch."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kvant.errors import KernelError

Array: TypeAlias = Any
"""A numpy array or a torch CPU tensor. numpy has no bfloat16: use torch, or float32."""

FLOATS = {"float32": 0, "bfloat16": 1, "float16": 2}
"""The native kernels' numbers for the types of queries, keys, values and outputs."""


class View(NamedTuple):
    """Address in memory, shape, strides in elements, and the name of the element type."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str


_NAMES: dict[Any, str] = {}
"""Names of torch's element types, as they are met: asking for one takes longer than the rest of `view`."""


def view(name: str, array: Array) -> View:
    """Describe an array; `KernelError` if it is not in this process's main memory."""
    if isinstance(array, np.ndarray):
        strides = tuple(s // array.itemsize for s in array.strides)
        return View(array.ctypes.data, array.shape, strides, array.dtype.name)
    if hasattr(array, "data_ptr"):
        if not array.is_cpu:
            raise KernelError(f"{name}: a tensor on {array.device}; the CPU kernels read main memory only")
        kind = _NAMES.get(array.dtype)
        if kind is None:
            kind = _NAMES[array.dtype] = str(array.dtype).removeprefix("torch.")
        return View(array.data_ptr(), array.shape, array.stride(), kind)
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


def token_stride(name: str, v: View, dtype: str, heads: int, head_dim: int) -> int:
    """Check [tokens][heads][head_dim] with free token stride; return that stride."""
    shape, strides = v.shape, v.strides
    if v.dtype != dtype or len(shape) != 3 or shape[1] != heads or shape[2] != head_dim:
        _match(name, v, dtype, (None, heads, head_dim))
    if strides[2] != 1 or (heads > 1 and strides[1] != head_dim):
        raise KernelError(f"{name}: heads of a token must be contiguous, strides are {strides}")
    return strides[0] if shape[0] > 1 else heads * head_dim


def _match(name: str, v: View, dtype: str, shape: tuple[int | None, ...]) -> None:
    if v.dtype != dtype:
        raise KernelError(f"{name}: expected {dtype}, got {v.dtype}")
    if len(v.shape) != len(shape) or any(
        want not in (None, got) for want, got in zip(shape, v.shape, strict=False)
    ):
        wanted = ", ".join("*" if size is None else str(size) for size in shape)
        raise KernelError(f"{name}: expected shape ({wanted}), got {tuple(v.shape)}")
