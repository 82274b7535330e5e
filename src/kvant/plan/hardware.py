"""Devices: memory, bandwidth, power and an example price, from YAML that anyone may replace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from kvant.config.section import Section, Text
from kvant.config.words import near
from kvant.errors import ConfigError
from kvant.recipes.strict import settings

FILE = Path(__file__).with_name("hardware.yaml")

Above = Annotated[float, Field(gt=0)]


class Device(Section):
    """One accelerator, or one socket with its memory. GB are 10^9 bytes, GiB 2^30."""

    summary: Text
    kind: Literal["gpu", "cpu"]
    memory_gib: Above
    bandwidth_gb_s: Above
    watts: Above
    price_per_hour: Annotated[float, Field(ge=0)]


class Catalogue(Section):
    """A file of devices."""

    devices: dict[str, Device]


def devices(file: Path | None = None) -> dict[str, Device]:
    """Ours, with those of `file` added and put in place of ours."""
    found = settings(FILE, Catalogue).devices
    return found | settings(file, Catalogue).devices if file else found


def find(name: str, known: dict[str, Device]) -> Device:
    if name in known:
        return known[name]
    close = near(name, known)
    hint = f"did you mean {close}? " if close else ""
    raise ConfigError(
        f"--on: no device is named {name!r}; {hint}known: {', '.join(known)}; --hardware FILE adds yours"
    )
