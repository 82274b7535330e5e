"""Operations on packed pages: encode into them, attend over them.

`PagedAttention` is the one entry point; `available()` and `select()` say which implementation runs
and why not a better one; `reference` is the readable numpy form that the tests hold them against.
"""

from kvant.kernels.arrays import Array
from kvant.kernels.paged import Batch, Exact, PagedAttention
from kvant.kernels.table import Kernel, available, select

__all__ = ["Array", "Batch", "Exact", "Kernel", "PagedAttention", "available", "select"]
