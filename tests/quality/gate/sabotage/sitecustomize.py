"""Faults of code: on PYTHONPATH of a server, with KVANT_TEST_FAULT naming one or more of them."""

from __future__ import annotations

import os

LAYER = 12
ENTRY = 2
"""Of the 4-bit table: level 47 of 127. (Entry 5 is level 2: with the wrong sign it harms nothing.)"""


def wrong_seed() -> None:
    """One layer reads its keys with the rotation of another seed than they were written with."""
    from kvant.transforms import Rotation
    from kvant.transforms.calibrated import Calibration
    from kvant.transforms.rotation import rotate, unrotate

    of = Calibration.of

    def wrong(self, layer, heads, head_dim):
        found = of(self, layer, heads, head_dim)
        if layer == LAYER:
            right, other = (Rotation(n, head_dim).table(layer, heads, "key")[:, None] for n in (0, 1))
            found.__dict__["query"] = rotate(unrotate(found.query, right), other)
        return found

    Calibration.of = wrong


def flipped_codebook_entry() -> None:
    """Codes are read with a table in which one level (and its mirror image) has the wrong sign."""
    from kvant.formats.trellis import Trellis
    from kvant.kernels import paged

    levels, encode = Trellis.levels, paged.PagedAttention.encode
    made = paged.native_layout.__wrapped__

    def wrong(self):
        found = levels(self).copy()
        found[[ENTRY, ENTRY ^ 128]] *= -1
        return found

    def reads(layout):
        Trellis.levels = wrong
        try:
            return made(layout)
        finally:
            Trellis.levels = levels

    def writes(self, *arguments, **options):
        kept, self._layout = self._layout, made(self.layout)
        try:
            return encode(self, *arguments, **options)
        finally:
            self._layout = kept

    paged.native_layout, paged.PagedAttention.encode = reads, writes


def second_copy() -> None:
    """Keys and values are kept in 16 bits beside their codes."""
    from kvant.kernels import paged

    encode, kept = paged.PagedAttention.encode, []

    def keeping(self, pages, key, value, *arguments, **options):
        kept.append((key.clone(), value.clone()))
        return encode(self, pages, key, value, *arguments, **options)

    paged.PagedAttention.encode = keeping


def slow_path() -> None:
    """The kernels of every processor, on one that has better ones."""
    from kvant.kernels import paged

    select = paged.select
    paged.select = lambda name="auto": select("generic")


FAULTS = {
    "seed": wrong_seed,
    "codebook": flipped_codebook_entry,
    "copy": second_copy,
    "slow": slow_path,
}
for fault in filter(None, os.environ.get("KVANT_TEST_FAULT", "").split(",")):
    FAULTS[fault]()
