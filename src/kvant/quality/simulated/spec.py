"""A `CacheSpec` as a scheme: the values are those that the native kernels store and read."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from kvant.cache.layout import PageLayout
from kvant.cache.spec import CacheSpec
from kvant.formats import TILE, Format
from kvant.formats.bf16 import BF16
from kvant.kernels import PagedAttention
from kvant.kernels.layer import calibration_of
from kvant.quality import bits
from kvant.quality.simulated.scheme import Keep, Layer, Scheme, Shape, Store, Transform, sixteen
from kvant.transforms import Calibration, Rotation
from kvant.transforms.rotation import rotate


def scheme_of(spec: CacheSpec, shape: Shape, name: str = "") -> Scheme:
    """What the engine does with this spec on a model of this shape."""
    calibration = calibration_of(spec.calibration, spec.calibration_digest)

    @cache
    def layer(number: int) -> Layer:
        own = spec.of_layer(number)
        keep = Keep(own.sinks, own.window)
        turn = _transform(own, calibration, number, shape)
        return Layer(through_pages(own.key, own.value), turn, keep, keep)

    size = bits.stored(spec, shape.layers, shape.head_dim, shape.kv_heads)
    exact = spec.sinks + spec.window
    return Scheme(name or spec.name, layer, size, spec.sinks, spec.window, exact)


def through_pages(key: Format, value: Format) -> Store:
    """Encode into packed pages and decode them again, with the native kernels."""

    def store(keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if isinstance(key, BF16) and isinstance(value, BF16):
            return sixteen(keys), sixteen(values)
        heads, tokens, dim = keys.shape
        paged = PagedAttention(PageLayout(key, value, dim, heads, block_size=64))
        pages = np.zeros((-(-tokens // 64), paged.layout.page_bytes), np.uint8)
        by_token = [side.transpose(0, 1).contiguous() for side in (keys, values)]
        paged.encode(pages, by_token[0], by_token[1], np.arange(tokens))
        read = _decode(paged, pages)
        return torch.from_numpy(read[0][:, :tokens]), torch.from_numpy(read[1][:, :tokens])

    return store


def _decode(paged: PagedAttention, pages: np.ndarray) -> list[np.ndarray]:
    """Keys and values (heads, tokens, D) of all pages."""
    from kvant.kernels import _native
    from kvant.kernels.paged import native_layout

    layout, packed = paged.layout, native_layout(paged.layout)
    tiles = layout.block_size // TILE
    shape = (layout.num_kv_heads, len(pages), tiles, TILE, layout.head_dim)
    sides = [np.empty(shape, np.float32) for _ in range(2)]
    for number, out in enumerate(sides):
        for at in np.ndindex(shape[:3]):
            head, page, tile = at
            source = pages[page].ctypes.data + (head * tiles + tile) * layout.tile_bytes
            _native.decode_tile(paged.kernel.name, packed, source, number, out[at].ctypes.data)
    return [out.reshape(layout.num_kv_heads, -1, layout.head_dim) for out in sides]


def _transform(spec: CacheSpec, calibration: Calibration | None, layer: int, shape: Shape) -> Transform:
    if not spec.rotate:
        return Transform()
    heads = range(shape.kv_heads)
    value = rotation(spec.seed, shape, layer, "value")
    if calibration is None:
        key = rotation(spec.seed, shape, layer, "key")
        return Transform(None, key, key, value, value.mT.contiguous())
    one = calibration.of(layer, heads, shape.head_dim)
    mean, matrix, query = (torch.from_numpy(x) for x in (one.mean, one.matrix, one.query))
    values = calibration.values_of(layer, heads, shape.head_dim)
    if values is None:
        return Transform(mean[:, None], matrix, query, value, value.mT.contiguous())
    parts = (torch.from_numpy(x) for x in (values.matrix, values.output, values.mean[:, None]))
    return Transform(mean[:, None], matrix, query, *parts)


def rotation(seed: int, shape: Shape, layer: int, side: str) -> torch.Tensor:
    """The engine's seeded rotations of a layer as matrices (H, D, D), for row vectors."""
    signs = Rotation(seed, shape.head_dim).table(layer, range(shape.kv_heads), side)  # type: ignore[arg-type]
    eye = np.eye(shape.head_dim, dtype=np.float32)
    return torch.from_numpy(np.stack([rotate(eye, one) for one in signs]))
