"""How the next token is chosen, and what a run of all prompts wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GREEDY = "greedy"
SAMPLED = "sampled"


@dataclass(frozen=True)
class Decoding:
    """Temperature and seeds: a text for each seed. Every configuration draws with the same seeds."""

    name: str
    temperature: float
    seeds: Sequence[int]


def decodings(temperature: float, seeds: int) -> list[Decoding]:
    return [Decoding(GREEDY, 0.0, (0,)), Decoding(SAMPLED, temperature, tuple(range(1, seeds + 1)))]


@dataclass(frozen=True)
class Writing:
    """What was asked for: prompts (token ids by name), decodings, and tokens of prompt and text together."""

    prompts: Mapping[str, list[int]]
    decodings: Sequence[Decoding]
    context: int

    def requests(self) -> list[tuple[str, str, int, float]]:
        """(prompt, decoding, seed, temperature) of every text, in a fixed order: all in one batch."""
        return [
            (prompt, one.name, seed, one.temperature)
            for one in self.decodings
            for seed in one.seeds
            for prompt in self.prompts
        ]
