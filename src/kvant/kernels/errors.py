"""What storing costs: vectors as the pages hold them, beside the vectors they were made from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvant.cache.layout import PageLayout
from kvant.cache.spec import CacheSpec
from kvant.formats import TILE
from kvant.kernels.arrays import Array
from kvant.kernels.layer import attention_of
from kvant.kernels.paged import PagedAttention, exact_layout

TINY = 1e-30
"""Added to an error before its logarithm: vectors of zeros are stored without any."""


class Probe:
    """Measures what one layer loses. Holds the layer's transforms a second time, before 16-bit pages."""

    def __init__(self, spec: CacheSpec, layout: PageLayout, layer: int, heads: range) -> None:
        self._plain = attention_of(spec, exact_layout(layout), layer, heads)
        self._page = np.zeros((1, self._plain.layout.page_bytes), np.uint8)

    def log_errors(
        self, paged: PagedAttention, pages: Array, key: Array, value: Array, slots: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Mean over `TILE` tokens of the log of the mean squared error, (2, KV heads): keys, values.

        key and value (TILE, KV heads, D) were written to `slots` (TILE,) of `pages`. The error is that of
        transformed vectors: of calibrated keys it is what the queries of the calibration text would see.
        """
        own = np.arange(TILE)
        self._plain.encode(self._page, key, value, own)
        lost = self._plain.decode(self._page, own).astype(np.float64) - paged.decode(pages, slots)
        errors: NDArray[np.float64] = np.log((lost**2).mean(3) + TINY).mean(1)
        return errors
