"""After the release: the level of divergence against that at promotion, and an alarm where it has risen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kvant.errors import EngineError
from kvant.gateway.answers import golden
from kvant.gateway.answers import settings as sections
from kvant.gateway.answers.drift import Drift
from kvant.gateway.roles import Asker
from kvant.quality.gate.recorded import Prompt
from kvant.rollout.evidence import CANDIDATE, Comparison

log = logging.getLogger("kvant.gateway.answers")

DIVERGENCE, DISAGREEMENT = "divergence", "disagreement"
LEAST = {DIVERGENCE: 1e-4, DISAGREEMENT: 0.01}
"""Levels below which all is noise: nats, and a share of tokens."""

Event = Callable[[str, bool, float], None]
"""What has drifted, whether it is raised (or cleared), and the multiple of the usual level."""


class Patrol:
    """Learns of comparisons. Divergences and disagreements are different scales, and watched apart."""

    def __init__(self, settings: sections.Patrol, event: Event) -> None:
        self._event = event
        self._drifts = {
            name: Drift(settings.window, settings.raised, settings.cleared, least)
            for name, least in LEAST.items()
        }
        self._fresh = dict(self._drifts)

    def promoted(self, levels: dict[str, float]) -> None:
        """The candidate is released; `levels` as far as they were measured, by `DIVERGENCE`, `DISAGREEMENT`.

        A level that is not given is that of the first full window from now on.
        """
        for name, fresh in self._fresh.items():
            level = levels.get(name)
            self._drifts[name] = Drift(fresh.window, fresh.raised_at, fresh.cleared_at, fresh.least, level)

    def learn(self, comparison: Comparison) -> None:
        if comparison.divergence is not None:
            self._see(DIVERGENCE, comparison.divergence)
        elif comparison.agreement is not None:
            self._see(DISAGREEMENT, 1 - comparison.agreement)

    @property
    def ratios(self) -> dict[str, float]:
        """Present level to the usual one, of what is known; for a gauge."""
        return {name: one.ratio for name, one in self._drifts.items() if one.ratio is not None}

    @property
    def raised(self) -> bool:
        return any(one.raised for one in self._drifts.values())

    def _see(self, name: str, value: float) -> None:
        before = self._drifts[name]
        after = self._drifts[name] = before.after(value)
        if after.raised != before.raised:
            ratio = after.ratio or 0.0
            word = "raised" if after.raised else "cleared"
            log.warning("drift of %s %s: %.2f times the usual level", name, word, ratio)
            self._event(name, after.raised, ratio)


async def rounds(
    asker: Asker,
    model: str,
    prompts: Sequence[Prompt],
    every: float,
    comparison: Callable[[Comparison], None],
    now: Callable[[], float],
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Asks the candidate a golden prompt `every` so many seconds, in turns, until it is cancelled.

    `wanted` is whether no baseline runs: where one does, real calls are compared instead.
    """
    turn = 0
    while True:
        await asyncio.sleep(every)
        if not wanted():
            continue
        prompt, turn = prompts[turn % len(prompts)], turn + 1
        try:
            apart = await golden.compare(asker, CANDIDATE, model, prompt, every)
        except EngineError as error:
            log.warning("golden prompt %d has no answer (%s)", turn, type(error).__name__)
            continue
        if apart is not None:
            comparison(Comparison(now(), None, apart.agreement, apart.positions, id=f"golden-{turn}"))
