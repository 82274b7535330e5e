"""Huge pages for the KV cache: pages are read in random order, and small pages make each a table walk."""

from __future__ import annotations

import ctypes

from kvant.kernels.arrays import Array, view

HUGE = 2 << 20
MADV_HUGEPAGE, MADV_COLLAPSE = 14, 25


def ask_for_huge_pages(pages: Array) -> bool:
    """Ask Linux to back `pages` with pages of 2 MiB; whether all of it is now.

    torch has written its zeros before we see them, so memory that is there is moved: about a second for
    each GiB on Linux 6.1 or newer; older ones do it by and by.
    """
    whole = view("pages", pages)
    start = -(-whole.address // HUGE) * HUGE
    size = (whole.address + whole.shape[0] * whole.strides[0] - start) // HUGE * HUGE
    if size <= 0:
        return False
    madvise = ctypes.CDLL(None).madvise
    where = ctypes.c_void_p(start), ctypes.c_size_t(size)
    return all(madvise(*where, advice) == 0 for advice in (MADV_HUGEPAGE, MADV_COLLAPSE))
