"""The simulated path: our specs and the peers of the literature in torch, one model loaded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from kvant.quality.fidelity.row import Row, made
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import compare

if TYPE_CHECKING:
    from kvant.quality.simulated.model import Simulator
    from kvant.quality.simulated.scheme import Scheme

    Make = Callable[[Simulator], Scheme]


def rows(
    model: str,
    simulator: Simulator,
    texts: Mapping[str, list[int]],
    schemes: Mapping[str, Make],
    settings: Settings,
) -> Iterator[Sequence[Row]]:
    """For each scheme the rows of all texts, against the same model with 16-bit keys and values."""
    control = {text: simulator.states(ids) for text, ids in texts.items()}
    for name, make in schemes.items():
        scheme = make(simulator)
        found = []
        for text, ids in texts.items():
            states = simulator.states(ids, scheme)
            scores = compare(control[text], states, ids, simulator.logits, settings.first)
            found.append(
                made(
                    scores,
                    settings.skip,
                    settings.by_position,
                    model=model,
                    preset=name,
                    text=text,
                    path="simulated",
                    bits=scheme.bits,
                    effective_bits=scheme.effective_bits(settings.tokens),
                    sinks=scheme.sinks,
                    window=scheme.window,
                )
            )
        yield found
