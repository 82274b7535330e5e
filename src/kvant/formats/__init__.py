"""What is stored: one format per file, numpy reference and exact byte layout."""

from kvant.formats.base import TILE, Encoded, Format, Meta
from kvant.formats.registry import KEY_FORMATS, VALUE_FORMATS, parse

__all__ = ["KEY_FORMATS", "TILE", "VALUE_FORMATS", "Encoded", "Format", "Meta", "parse"]
