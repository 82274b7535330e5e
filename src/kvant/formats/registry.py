"""Every storage format by name. Tests, kernels and the command line walk this table."""

from __future__ import annotations

import difflib

from kvant.errors import FormatError
from kvant.formats.base import Format
from kvant.formats.bf16 import BF16
from kvant.formats.codebook import Codebook
from kvant.formats.integer import Integer
from kvant.formats.jl import Residual
from kvant.formats.polar import Polar
from kvant.formats.trellis import Trellis

KEY_FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        BF16(),
        Integer(8),
        Integer(8, asymmetric=True),
        Integer(4),
        Integer(4, asymmetric=True),
        *(Codebook(bits, scale) for scale in ("bf16", "byte") for bits in (4, 3, 2)),
        *(Residual(Codebook(bits)) for bits in (4, 3, 2)),
        Polar(),
        *(Trellis(bits) for bits in (4, 3, 2)),
    )
}
"""Formats a key can be stored in."""

VALUE_FORMATS: dict[str, Format] = {n: f for n, f in KEY_FORMATS.items() if not isinstance(f, Residual)}
"""Formats a value can be stored in: a residual estimates inner products, so it is for keys only."""


def parse(name: str, side: str = "key") -> Format:
    """The format of that name; `FormatError` with a suggestion if there is none."""
    table = KEY_FORMATS if side == "key" else VALUE_FORMATS
    if name in table:
        return table[name]
    if name in KEY_FORMATS:
        raise FormatError(
            f"{side} format {name!r}: a jl residual is for keys only; try {name.split('+')[0]!r}"
        )
    close = difflib.get_close_matches(str(name), table, 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise FormatError(f"{side} format {name!r} does not exist; {hint}known: {', '.join(table)}")
