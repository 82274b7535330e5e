"""Samples the errors that a worker's pages make, and says when they leave the calibrated range.

Of every `EVERY` new tokens `TILE` are decoded again, of one layer: some tenths of a millisecond.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from kvant.cache import ranges
from kvant.cache.ranges import ErrorRange
from kvant.engine.drift import BEGINS, ENDS, Drift, Turn
from kvant.formats import TILE
from kvant.kernels.errors import Probe
from kvant.kernels.layer import calibration_of
from kvant.recipes.plan import SINKS

if TYPE_CHECKING:
    from kvant.engine.impl import KvantImpl
    from kvant.engine.metadata import KvantMetadata

EVERY = 64


@dataclass
class Watched:
    """One layer: what its errors should be, and what measures them (built when it is first sampled)."""

    calibrated: ErrorRange
    probe: Probe | None = None


class Watch:
    """Of one engine's worker. Layers take turns from the last to the first: the next one has passed
    already, so that a step is sampled once."""

    def __init__(self, model: str) -> None:
        self.drift = Drift()
        self._model = model
        self._layers: dict[int, Watched] = {}
        self._turn: list[int] = []
        self._tokens = 0
        self._random = np.random.default_rng(0)

    @property
    def calibrated(self) -> bool:
        """Whether any layer has a range to be compared with."""
        return bool(self._layers)

    def include(self, impl: KvantImpl) -> None:
        """Watch a layer too, if its recipe holds the range of errors of the formats it stores."""
        calibration = calibration_of(impl.spec.calibration, impl.spec.calibration_digest)
        found = ranges.load(calibration.facts).get(impl.owner) if calibration else None
        if found is not None and found.formats == (impl.spec.key.name, impl.spec.value.name):
            self._layers[impl.owner] = Watched(found)

    def wants(self, layer: int, tokens: int) -> bool:
        """Whether to sample this layer in this step, which brings so many new tokens."""
        if not self._turn:
            self._turn = sorted(self._layers)
        if not self._turn or self._turn[-1] != layer:
            return False
        self._tokens += tokens
        return self._tokens >= EVERY and tokens >= TILE

    def sample(
        self,
        impl: KvantImpl,
        pages: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        slots: torch.Tensor,
        step: KvantMetadata,
    ) -> None:
        """Compare `TILE` of the step's tokens in a row with what the pages now hold of them."""
        first = int(self._random.integers(step.num_actual_tokens - TILE + 1))
        part = slice(first, first + TILE)
        positions = step.batch.positions(np.arange(first, first + TILE))
        where = slots[part].numpy()
        if where.min() < 0 or positions.min() < SINKS:  # padding; tokens that calibration left out
            return
        self._turn.pop()
        self._tokens = 0
        layer = self._layers[impl.owner]
        if layer.probe is None:
            layer.probe = Probe(impl.spec, impl.paged.layout, impl.owner, impl.heads)
        errors = layer.probe.log_errors(impl.paged, pages, key[part], value[part], where)
        deviations = layer.calibrated.deviations(errors, float(positions.mean()), impl.heads)
        self._say(self.drift.add(impl.owner, deviations))

    def report(self) -> dict[str, Any]:
        """JSON-able; drift of keys and values is missing while there are too few samples."""
        return {"samples": self.drift.samples, "alarm": self.drift.alarm, "drift": self.drift.by_side()}

    def _say(self, turn: Turn | None) -> None:
        from vllm.logger import init_logger

        from kvant.engine.announce import LOGGER

        if turn == "begins":
            init_logger(LOGGER).warning("%s", self.alarm_line())
        elif turn == "ends":
            init_logger(LOGGER).info(
                "kvant: errors of the KV cache are in the calibrated range again: drift %.2f, below %.2f",
                self.drift.overall,
                ENDS,
            )

    def alarm_line(self) -> str:
        """What left the range, and what mends it."""
        sides = self.drift.by_side()
        layer, side, most = self.drift.worst()
        return (
            "kvant: errors of the KV cache left the range they were calibrated in: what is served is unlike "
            f"the text of the recipe. Drift {self.drift.overall:.2f}, 1 is as calibrated, alarm above "
            f"{BEGINS:.2f}: keys {sides['key']:.2f}, values {sides['value']:.2f}, most in the {side}s of "
            f"layer {layer}, {most:.2f}. Calibrate on text like it, for the preset you serve: "
            f"`kvant calibrate {shlex.quote(self._model)} --force` with --data FILE or --from-traffic FILE"
        )
