"""A choice of rungs as the cache that it is, and as words."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kvant.cache.spec import CacheSpec, LayerFormats
from kvant.quality.tune.ladder import Ladder
from kvant.quality.tune.search import Rungs
from kvant.recipes import preset


def spec_of(rungs: Rungs, base: CacheSpec, ladder: Ladder) -> CacheSpec:
    """What most layers store is the cache's own; the others are named. All else is `base`."""
    common = Counter(rungs).most_common(1)[0][0]
    layers = tuple(
        LayerFormats(layer, *(ladder.formats[rung] for rung in pair))
        for layer, pair in enumerate(rungs)
        if pair != common
    )
    key, value = (ladder.formats[rung] for rung in common)
    return replace(base, key=key, value=value, layers=layers, skip_layers=())


def uniform(layers: int, ladder: Ladder) -> list[Rungs]:
    """What presets are made of: the same in every layer, keys at least as wide as values."""
    rungs = range(len(ladder.formats))
    return [((key, value),) * layers for value in rungs for key in rungs if key >= value]


def title(rungs: Rungs, base: CacheSpec, ladder: Ladder) -> str:
    """KEY/VALUE of a uniform choice, and the preset that it is."""
    spec = spec_of(rungs, base, ladder)
    for name in preset.names():
        one = preset.find(name)
        if (one.key, one.value, one.sinks, one.window, one.calibrated) == (
            spec.key.name, spec.value.name, spec.sinks, spec.window, bool(spec.calibration)
        ):  # fmt: skip
            return f"{name} ({spec.name})"
    return spec.name


def widths(rungs: Rungs, ladder: Ladder) -> tuple[str, str]:
    """How many layers store keys, and values, at which rung: "12 trellis2, 18 trellis3"."""
    counts = (Counter(pair[side] for pair in rungs) for side in (0, 1))
    keys, values = (", ".join(f"{one[r]} {ladder.names[r]}" for r in sorted(one)) for one in counts)
    return keys, values
