"""One model after the other: its texts as tokens, then the engine's rows, then the simulated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.errors import ModelError
from kvant.quality.fidelity.row import Row
from kvant.quality.fidelity.settings import Settings
from kvant.quality.fidelity.texts import Text, calibration

if TYPE_CHECKING:
    from kvant.quality.simulated.sensitivity import Sensitivity


@dataclass(frozen=True)
class Plan:
    """What is compared with the 16-bit cache, and by which path."""

    specs: Mapping[str, CacheSpec]
    peers: Sequence[str]
    simulated: bool

    @property
    def steps(self) -> int:
        """Groups of rows that `rows` yields for a model."""
        return len(self.specs) + len(self.peers) + (not self.simulated and bool(self.specs))


def rows(
    model: str, folder: Path | str, ids: Mapping[str, list[int]], plan: Plan, settings: Settings
) -> Iterator[Sequence[Row]]:
    """The rows of one model on texts as token ids (`tokens`), a configuration at a time."""
    if plan.specs and not plan.simulated:
        from kvant.quality.fidelity import engine

        yield from engine.rows(model, folder, ids, plan.specs, settings)
    specs = plan.specs if plan.simulated else {}
    if specs or plan.peers:
        from kvant.quality.fidelity import simulated

        yield from simulated.rows(
            model, _simulator(folder, settings), ids, _makers(specs, plan.peers, settings), settings
        )


def layers(
    folder: Path | str, ids: Mapping[str, list[int]], spec: CacheSpec, settings: Settings
) -> Iterator[Sensitivity]:
    """Which layer costs how much, keys and values apart."""
    from kvant.quality.simulated.sensitivity import sensitivity
    from kvant.quality.simulated.spec import scheme_of

    simulator = _simulator(folder, settings)
    yield from sensitivity(simulator, ids, scheme_of(spec, simulator.shape), settings.skip)


def tokens(folder: Path | str, texts: Sequence[Text], settings: Settings) -> dict[str, list[int]]:
    """Token ids by text; both paths are given the same."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: {str(error).splitlines()[0]}") from error
    settings.check(str(folder), getattr(config.get_text_config(), "max_position_embeddings", None))
    return {text.name: text.ids(tokenizer, settings.tokens) for text in texts}


def _simulator(folder: Path | str, settings: Settings) -> Any:
    from kvant.quality.simulated.model import Simulator

    return Simulator(folder, settings.dtype)


def _makers(specs: Mapping[str, CacheSpec], peers: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Builders of schemes by name; the moments that some peers need are measured once, at the first."""
    from kvant.quality.simulated.moments import Moments, measure
    from kvant.quality.simulated.peers import FITTED, PEERS
    from kvant.quality.simulated.spec import scheme_of

    measured: list[list[Moments]] = []

    def moments(simulator: Any) -> list[Moments]:
        if not measured:
            (ids,) = tokens(simulator.folder, [calibration()], settings).values()
            measured.append(measure(simulator, ids))
        return measured[0]

    def ours(name: str, spec: CacheSpec) -> Any:
        return lambda simulator: scheme_of(spec, simulator.shape, name)

    def peer(name: str) -> Any:
        return lambda simulator: PEERS[name](
            name, simulator.shape, moments(simulator) if name in FITTED else []
        )

    return {name: ours(name, spec) for name, spec in specs.items()} | {name: peer(name) for name in peers}
