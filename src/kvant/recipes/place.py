"""Where recipes are kept: $KVANT_HOME/recipes/<first 16 of the model's digest>/<preset>/."""

from __future__ import annotations

from pathlib import Path

from kvant.models import cache_root


def home(digest: str) -> Path:
    """Everything that was calibrated for one model: a folder for each preset, and moments."""
    return cache_root() / "recipes" / digest[:16]


def folder(digest: str, preset: str) -> Path:
    """The recipe that `kvant serve` takes for a preset, once it has been made."""
    return home(digest) / preset


def moments(digest: str, identity: str) -> Path:
    """Sums over one choice of texts: a killed run goes on from them, and every preset is made of them."""
    return home(digest) / f"moments-{identity[:16]}.safetensors"


def samples(digest: str, identity: str) -> Path:
    """Keys and values of a few blocks of one choice of texts."""
    return home(digest) / f"samples-{identity[:16]}.safetensors"
