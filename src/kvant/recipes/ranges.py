"""Samples of keys and values -> the range of errors that a recipe makes on them, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kvant.cache.ranges import FACT, ErrorRange, dump
from kvant.cache.spec import CacheSpec
from kvant.formats import TILE
from kvant.kernels.errors import Probe
from kvant.kernels.layer import attention_of
from kvant.recipes.sample import Samples
from kvant.transforms import Calibration
from kvant.transforms.calibrated import file_digest


def with_ranges(
    calibration: Calibration, samples: Samples, spec: CacheSpec, owners: Mapping[int, int]
) -> Calibration:
    """The calibration and the range of errors of each layer of a spec (without a calibration) that uses it.

    Measured through the kernels and pages; `owners` names the layer whose cache each layer reads.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "transforms"
        calibration.save(file)
        calibrated = replace(spec, calibration=str(file), calibration_digest=file_digest(file))
        own = {layer: _range(layer, calibrated.of_layer(layer), samples) for layer in samples.layers}
    found = dump({layer: own[owner] for layer, owner in owners.items()})
    return replace(calibration, facts={**calibration.facts, FACT: found})


def _range(layer: int, spec: CacheSpec, samples: Samples) -> ErrorRange:
    _, _, heads, dim = samples.layers[layer].shape
    layout = spec.layout(dim, heads)
    probe = Probe(spec, layout, layer, range(heads))
    paged = attention_of(spec, layout, layer, range(heads))
    pages = np.zeros((1, layout.page_bytes), np.uint8)
    slots = np.arange(TILE)
    errors = []
    for block in np.split(samples.layers[layer].astype(np.float32), len(samples.positions), axis=1):
        key, value = np.ascontiguousarray(block)
        paged.encode(pages, key, value, slots)
        errors.append(probe.log_errors(paged, pages, key, value, slots))
    knots = np.unique(samples.positions).astype(np.float64)
    formats = (spec.key.name, spec.value.name)
    return ErrorRange.fit(formats, knots, samples.positions.astype(np.float64), np.stack(errors))
