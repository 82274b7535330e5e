"""One model: its texts as tokens, then the engine's rows, then the simulated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvant.cache.spec import CacheSpec
from kvant.errors import ModelError
from kvant.quality.fidelity.request import Request
from kvant.quality.fidelity.row import Row
from kvant.quality.fidelity.settings import Settings
from kvant.quality.fidelity.texts import Text, calibration

if TYPE_CHECKING:
    from kvant.quality.simulated.sensitivity import Sensitivity

Ids = Mapping[str, list[int]]
"""Token ids by text."""


def tokens(folder: Path | str, texts: Sequence[Text], settings: Settings) -> Ids:
    """What both paths are given; refuses a text that is too short, and a model that is."""
    words = tokenizer(folder, settings)
    return {text.name: text.ids(words, settings.tokens) for text in texts}


def tokenizer(folder: Path | str, settings: Settings) -> Any:
    """The model's, once it is known that the model has positions enough."""
    from transformers import AutoConfig, AutoTokenizer

    try:
        config, words = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: {str(error).splitlines()[0]}") from error
    settings.check(str(folder), getattr(config.get_text_config(), "max_position_embeddings", None))
    return words


def rows(
    model: str, folder: Path | str, ids: Ids, specs: Mapping[str, CacheSpec], request: Request
) -> Iterator[Sequence[Row]]:
    """The rows of one model, a configuration at a time."""
    if specs and not request.simulated:
        from kvant.quality.fidelity import engine

        yield from engine.rows(model, folder, ids, specs, request.settings, request.control)
    ours = specs if request.simulated else {}
    if ours or request.peers:
        from kvant.quality.fidelity import simulated

        settings = request.settings
        schemes = _schemes(ours) | _peers(request.peers, settings)
        yield from simulated.rows(model, loaded(folder, settings), ids, schemes, settings)


def layers(
    folder: Path | str, ids: Ids, specs: Mapping[str, CacheSpec], settings: Settings
) -> Iterator[tuple[str, Sensitivity]]:
    """Which layer costs how much, keys and values apart, with the name of the spec."""
    from kvant.quality.simulated.sensitivity import sensitivity
    from kvant.quality.simulated.spec import scheme_of

    simulator = loaded(folder, settings)
    for name, spec in specs.items():
        for part in sensitivity(simulator, ids, scheme_of(spec, simulator.shape), settings.skip):
            yield name, part


def loaded(folder: Path | str, settings: Settings) -> Any:
    """The model, loaded for the simulated path."""
    from transformers.utils import logging

    from kvant.quality.simulated.model import Simulator

    logging.disable_progress_bar()  # ours is on the screen
    return Simulator(folder, settings.dtype)


def _schemes(specs: Mapping[str, CacheSpec]) -> dict[str, Any]:
    """Name to what makes the scheme on a simulator."""
    from kvant.quality.simulated.spec import scheme_of

    def one(name: str, spec: CacheSpec) -> Any:
        return lambda simulator: scheme_of(spec, simulator.shape, name)

    return {name: one(name, spec) for name, spec in specs.items()}


def _peers(names: Sequence[str], settings: Settings) -> dict[str, Any]:
    """The same for peers; the moments that some need are measured once, at the first of them."""
    from kvant.quality.simulated.moments import Moments, measure
    from kvant.quality.simulated.peers import FITTED, PEERS

    measured: list[list[Moments]] = []

    def moments(simulator: Any) -> list[Moments]:
        if not measured:
            (ids,) = tokens(simulator.folder, [calibration()], settings).values()
            measured.append(measure(simulator, ids))
        return measured[0]

    def one(name: str) -> Any:
        return lambda simulator: PEERS[name](
            name, simulator.shape, moments(simulator) if name in FITTED else []
        )

    return {name: one(name) for name in names}
