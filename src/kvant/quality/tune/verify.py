"""Is the tuned cache better than the uniform one, on text that it was not tuned on?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvant.cache.spec import CacheSpec
from kvant.quality.fidelity.row import Row, made
from kvant.quality.fidelity.settings import Settings
from kvant.quality.score import Scores, compare, standard_error

if TYPE_CHECKING:
    from kvant.quality.simulated.model import Simulator

Scored = Mapping[str, Scores]
"""Of one configuration, by text."""


class Bench:
    """One model and its texts: the 16-bit states are computed once."""

    def __init__(self, simulator: Simulator, texts: Mapping[str, list[int]], settings: Settings) -> None:
        self.simulator, self.texts, self.settings = simulator, texts, settings
        self._control = {text: simulator.states(ids) for text, ids in texts.items()}

    def score(self, spec: CacheSpec, step: Callable[[], None] = lambda: None) -> Scored:
        """The full simulated path: what every position pays for this cache; `step` follows each text."""
        from kvant.quality.simulated.spec import scheme_of

        scheme, found = scheme_of(spec, self.simulator.shape), {}
        for text, ids in self.texts.items():
            states = self.simulator.states(ids, scheme)
            found[text] = compare(self._control[text], states, ids, self.simulator.logits, self.settings.skip)
            step()
        return found

    def rows(self, model: str, name: str, spec: CacheSpec, scored: Scored) -> list[Row]:
        """The rows of `kvant fidelity`."""
        from kvant.quality.bits import effective, stored

        shape = self.simulator.shape
        bits = stored(spec, shape.layers, shape.head_dim, shape.kv_heads)
        return [
            made(
                scores,
                self.settings.skip,
                False,
                model=model,
                preset=name,
                text=text,
                path="simulated",
                bits=bits,
                effective_bits=effective(bits, spec.sinks + spec.window, self.settings.tokens),
                sinks=spec.sinks,
                window=spec.window,
            )
            for text, scores in scored.items()
        ]


def mean(scored: Scored) -> float:
    """KL, the mean of the texts' means."""
    return float(sum(one.kl.mean() for one in scored.values()) / len(scored))


@dataclass(frozen=True)
class Verdict:
    """Tuned against uniform, KL in nats over all texts; `gain` is what tuning saves, by paired positions."""

    uniform: str
    uniform_bits: float
    uniform_kl: float
    tuned: str
    tuned_bits: float
    tuned_kl: float
    gain: float
    gain_se: float

    @property
    def better(self) -> bool:
        """By more than two standard errors."""
        return self.gain > 2 * self.gain_se

    def __str__(self) -> str:
        numbers = f"KL {self.tuned_kl:.5f} against {self.uniform_kl:.5f}"
        paired = f"{self.gain:+.5f} ± {self.gain_se:.5f}"
        if self.better:
            what = f"{self.gain / self.uniform_kl:.0%} less"
        elif -self.gain > 2 * self.gain_se:
            what = "WORSE than uniform"
        else:
            what = "no better than uniform: within two standard errors"
        if self.tuned_bits > self.uniform_bits + 1e-3:
            what += f", with {self.tuned_bits - self.uniform_bits:.3f} bits more"
        return (
            f"{self.tuned} against {self.uniform} of {self.uniform_bits:.3f}: {numbers}, "
            f"saves {paired}: {what}"
        )


def judge(uniform: tuple[str, float, Scored], tuned: tuple[str, float, Scored]) -> Verdict:
    """Of two configurations (name, bits, scores) on the same texts."""
    gaps = [one.kl - tuned[2][text].kl for text, one in uniform[2].items()]
    gain = float(sum(gap.mean() for gap in gaps) / len(gaps))
    error = float(sum(standard_error(gap) ** 2 for gap in gaps) ** 0.5 / len(gaps))
    return Verdict(uniform[0], uniform[1], mean(uniform[2]), tuned[0], tuned[1], mean(tuned[2]), gain, error)
