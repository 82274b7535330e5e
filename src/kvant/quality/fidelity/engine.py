"""The engine path: real kernels and pages, every configuration against a 16-bit cache."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kvant.cache.spec import CacheSpec
from kvant.formats import KEY_FORMATS, VALUE_FORMATS
from kvant.quality.bits import effective, stored
from kvant.quality.fidelity import process
from kvant.quality.fidelity.row import Row, made
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import Scores

STOCK = "stock"
"""vLLM's own 16-bit cache and kernel against ours: the noise of 16-bit arithmetic."""
BITS16 = "16-bit"
"""Our own kernel on bf16 pages: the control."""
CONTROL = CacheSpec(KEY_FORMATS["bf16"], VALUE_FORMATS["bf16"], rotate=False)

OWN, OTHER = "own", "other"
"""Kept states: of the model's 16-bit cache, and of another model's."""


def rows(
    model: str,
    folder: Path | str,
    texts: Mapping[str, list[int]],
    specs: Mapping[str, CacheSpec],
    settings: Settings,
    control: Path | str = "",
) -> Iterator[Sequence[Row]]:
    """For each configuration the rows of all texts, against the model's own 16-bit cache.

    `control`, another model: against that one's 16-bit cache too, and a row of the model's own.
    """
    with tempfile.TemporaryDirectory(prefix="kvant-fidelity-") as scratch:
        run = partial(process.run, texts=texts, settings=settings, scratch=scratch)
        bases = [OWN, OTHER] if control else [OWN]
        if control:
            run(control, BITS16, CONTROL, keep=OTHER, against=[])
        facts = run(folder, BITS16, CONTROL, keep=OWN, against=bases[1:])
        made_of = partial(_rows, model, texts, settings, scratch)
        if control:
            yield made_of(BITS16, CONTROL, facts, [OTHER])
        for name, spec in {STOCK: None, **specs}.items():
            facts = run(folder, name, spec, keep="", against=bases)
            yield made_of(name, spec or CONTROL, facts, bases)


def _rows(
    model: str,
    texts: Mapping[str, list[int]],
    settings: Settings,
    scratch: str,
    name: str,
    spec: CacheSpec,
    facts: Mapping[str, Any],
    bases: Sequence[str],
) -> list[Row]:
    size = stored(spec, facts["layers"], facts["head_dim"], facts["kv_heads"])
    return [
        made(
            _scores(Path(scratch) / f"{text}.{base}.npz", settings.first),
            settings.skip,
            settings.by_position,
            settings.even,
            model=model,
            preset=name,
            text=text,
            path="engine",
            bits=size,
            effective_bits=effective(size, spec.sinks + spec.window, settings.tokens),
            sinks=spec.sinks,
            window=spec.window,
            kernel=facts["kernel"],
            weights=facts["weights"],
            against=settings.control if base == OTHER else "",
        )
        for base in bases
        for text in texts
    ]


def _scores(file: Path, first: int) -> Scores:
    with np.load(file) as arrays:
        return Scores(first, arrays["kl"], arrays["same"], arrays["loss"])
