"""The figures of one text, and of one configuration's texts against the control's, paired by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kvant.quality.generation import detectors

Figures = Mapping[str, float]
NAMES = ("repeated", "looping", "loop_start", "compression", "strayed", "broken", "stop")


def of(text: str, prompt: str, stop: float) -> Figures:
    """Every detector on what was written after the prompt; `stop` as `stopped` says."""
    return {
        "repeated": detectors.repeated(text),
        "looping": detectors.looping(text),
        "loop_start": detectors.loop_start(text),
        "compression": detectors.compression(text),
        "strayed": detectors.strayed(text, prompt),
        "broken": detectors.broken(text),
        "stop": stop,
    }


def stopped(ids: Sequence[int], special: frozenset[int]) -> float:
    """Where the model would have ended: the first special token, as a share of what it wrote; 1 for none."""
    return next((n / len(ids) for n, one in enumerate(ids) if one in special), 1.0)


def parted(ids: Sequence[int], control: Sequence[int]) -> float:
    """Tokens before the first that is not the control's."""
    return next((n for n, (a, b) in enumerate(zip(ids, control, strict=True)) if a != b), len(ids))


@dataclass(frozen=True)
class Paired:
    """Mean over prompts, mean difference to the control, and the standard error of that difference."""

    mean: float
    delta: float
    se: float


def paired(here: Sequence[Sequence[float]], control: Sequence[Sequence[float]]) -> Paired:
    """From (prompts, seeds) each: seeds are averaged first, since texts of one prompt are alike."""
    mine, theirs = np.mean(here, axis=1), np.mean(control, axis=1)
    gap = mine - theirs
    se = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else float("nan")
    return Paired(float(mine.mean()), float(gap.mean()), float(se))


@dataclass(frozen=True)
class Written:
    """One configuration and decoding: n prompts, seeds of each, tokens that equal the control's, figures."""

    model: str
    preset: str
    decoding: str
    n: int
    seeds: int
    kernel: str
    parted: float
    figures: Mapping[str, Paired]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
