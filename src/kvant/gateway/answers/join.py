"""All that watches answers, plugged into a gateway.

answers = Answers(gateway, settings, router, phase, observe)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kvant.gateway.answers import golden, patrol
from kvant.gateway.answers.comparer import Comparer
from kvant.gateway.answers.examples import Examples
from kvant.gateway.answers.finished import Answer
from kvant.gateway.answers.fuse import Fuse
from kvant.gateway.answers.guard import CandidateGuard
from kvant.gateway.answers.patrol import Patrol
from kvant.gateway.answers.shadow import Shadow
from kvant.gateway.answers.witness import Witness
from kvant.gateway.app import Gateway
from kvant.gateway.call import Served
from kvant.gateway.roles import Router
from kvant.gateway.settings import GatewaySettings
from kvant.rollout.evidence import BASELINE, Comparison, Serving


class Answers:
    """To be made before the gateway runs. `phase` is the rollout's; `observe` takes its evidence."""

    def __init__(
        self,
        gateway: Gateway,
        settings: GatewaySettings,
        router: Router,
        phase: Callable[[], str],
        observe: Callable[[Serving | Comparison], None],
        event: patrol.Event = lambda name, raised, ratio: None,
        *,
        prompts_may_be_kept: bool = False,
        model: str = "",
    ) -> None:
        """`model` is asked golden prompts; where it is not named, the only one of the arm."""
        now, asker = time.monotonic, Later(gateway)
        self._gateway, self._settings, self._phase, self._observe = gateway, settings, phase, observe
        self._model = model
        self.fuse = Fuse(router, settings.breaker, now)
        self.witness = Witness(observe, self.fuse.learn, settings.breaker.watch)
        self.examples = Examples(settings.comparing.examples, prompts_may_be_kept)
        self.patrol = Patrol(settings.patrol, event)
        self.shadow = Shadow(
            settings.shadow, asker, now, self._paired, wanted=lambda: phase() in ("shadow", "canary")
        )
        self.comparer = Comparer(
            settings.comparing, asker, now, self._compared, self.witness.signs, self.examples,
            self.shadow.holds, self._both, failed=observe,
        )  # fmt: skip
        self._golden = golden.read(settings.patrol.golden) if settings.patrol.golden else []
        self._asker = asker
        gateway.cast.router = self.fuse
        gateway.cast.guard = CandidateGuard(settings.breaker)
        gateway.cast.watchers += [self.fuse, self.witness, self.comparer, self.shadow]
        gateway.beside.append(self.run)

    async def run(self) -> None:
        """Golden prompts where no baseline runs; ends all work beside the calls when it is cancelled."""
        ask = partial(
            patrol.rounds, self._asker, self._model, self._golden, self._settings.patrol.every,
            self._golden_compared, time.monotonic, self._alone,
        )  # fmt: skip
        try:
            await (ask() if self._golden else asyncio.Event().wait())
        finally:
            for one in (self.shadow, self.comparer, self.witness):
                await one.close()

    def _both(self) -> bool:
        return self._phase() in ("shadow", "canary", "full") and self._baseline_up

    def _alone(self) -> bool:
        return self._phase() == "full" and not self._baseline_up

    @property
    def _baseline_up(self) -> bool:
        return self._gateway.arms[BASELINE].up(time.monotonic())

    def _paired(self, served: Served, answer: Answer | None) -> None:
        self.witness.shadowed(served, answer)
        self.comparer.pair(served, answer)

    def _compared(self, found: Comparison) -> None:
        self._observe(found)
        self.patrol.learn(found, self._phase() == "full")

    def _golden_compared(self, found: Comparison) -> None:
        self.patrol.learn(found, self._phase() == "full", golden=True)


class Later:
    """The asker of a gateway that does not run yet."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def ask(
        self,
        arm: str,
        path: str,
        body: Mapping[str, Any],
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        return await self._gateway.asker.ask(arm, path, body, seconds=seconds, headers=headers)

    def load(self, arm: str) -> float:
        return self._gateway.asker.load(arm)
