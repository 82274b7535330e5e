"""Who may read a page: everything that must be equal on both sides, and its digest.

A page carries no description of itself, so whoever stores or announces pages keeps this identity
beside them, and whoever reads them compares it and refuses by name what differs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from kvant.cache.layout import LAYOUT_VERSION, PageLayout
from kvant.errors import IdentityError
from kvant.formats.codebook import CODEBOOK_VERSION
from kvant.formats.jl import JL_VERSION
from kvant.formats.polar import POLAR_VERSION
from kvant.formats.trellis import TRELLIS_VERSION
from kvant.transforms import ROTATION_VERSION

CODE_VERSIONS = f"{CODEBOOK_VERSION};{JL_VERSION};{POLAR_VERSION};{TRELLIS_VERSION}"


@dataclass(frozen=True)
class PageIdentity:
    """All that a reader of packed pages must share with their writer."""

    key: str
    value: str
    head_dim: int
    block_size: int
    rotate: bool
    seed: int
    tile_bytes: int
    calibration: str = ""
    """SHA-256 of the file of calibrated key transforms; "" is none."""
    layout_version: str = LAYOUT_VERSION
    rotation_version: str = ROTATION_VERSION
    code_versions: str = CODE_VERSIONS

    @classmethod
    def of(cls, layout: PageLayout, rotate: bool, seed: int, calibration: str = "") -> PageIdentity:
        return cls(
            layout.key.name,
            layout.value.name,
            layout.head_dim,
            layout.block_size,
            rotate,
            seed if rotate else 0,
            layout.tile_bytes,
            calibration,
        )

    def to_json(self) -> dict[str, str | int | bool]:
        return asdict(self)

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, hex."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def check(self, other: PageIdentity, where: str) -> None:
        """Raise `IdentityError` that names every field in which `other` differs."""
        mine, theirs = self.to_json(), other.to_json()
        parts = [
            f"{name} is {theirs[name]!r} there, {mine[name]!r} here"
            for name in mine
            if mine[name] != theirs[name]
        ]
        if parts:
            raise IdentityError(f"{where}: pages cannot be read: {'; '.join(parts)}")
