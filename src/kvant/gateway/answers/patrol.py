"""After the release: the level of divergence against that at promotion, and an alarm where it has risen."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from kvant.errors import EngineError
from kvant.gateway.answers import golden
from kvant.gateway.answers import settings as sections
from kvant.gateway.answers.drift import Drift
from kvant.gateway.roles import Asker
from kvant.quality.gate.recorded import Prompt
from kvant.rollout.evidence import CANDIDATE, Comparison

log = logging.getLogger("kvant.gateway.answers")

DIVERGENCE, DISAGREEMENT, GOLDEN = "divergence", "disagreement", "golden"
"""What is watched: KL; disagreement where no KL can be had; that with recorded answers to golden prompts."""
LEAST = {DIVERGENCE: 1e-4, DISAGREEMENT: 0.01, GOLDEN: 0.01}
"""Levels below which all is noise: nats, and shares of tokens."""

Event = Callable[[str, bool, float], None]
"""What has drifted, whether it is raised (or cleared), and the multiple of the usual level."""


class Patrol:
    """Learns of comparisons. What has another scale is watched apart.

    The level at promotion is that of the last full window before it; where there was none, as after a
    restart, that of the first one since.
    """

    def __init__(self, settings: sections.Patrol, event: Event) -> None:
        self._event = event
        self._drifts = {
            name: Drift(settings.window, settings.raised, settings.cleared, least)
            for name, least in LEAST.items()
        }
        self._fresh = dict(self._drifts)
        self._before = {name: deque[float](maxlen=settings.window) for name in LEAST}
        self._released = False

    def learn(self, comparison: Comparison, released: bool, golden: bool = False) -> None:
        """`released`: the candidate is fully promoted; `golden`: it was asked a golden prompt."""
        if released != self._released:
            self._released = released
            self._begin()
        if comparison.divergence is not None:
            name, value = DIVERGENCE, comparison.divergence
        elif comparison.agreement is not None:
            name, value = GOLDEN if golden else DISAGREEMENT, 1 - comparison.agreement
        else:
            return
        if released:
            self._see(name, value)
        else:
            self._before[name].append(value)

    def _begin(self) -> None:
        for name, fresh in self._fresh.items():
            before = self._before[name]
            level = sum(before) / len(before) if len(before) == fresh.window else None
            self._drifts[name] = replace(fresh, level=level)
            before.clear()

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
