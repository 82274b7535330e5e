"""The release of the candidate, plugged into a gateway: who routes, who watches, and who decides."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time

from starlette.applications import Starlette

from kvant.gateway.answers.join import Answers
from kvant.gateway.app import Gateway
from kvant.gateway.arms.arm import Arm as Running
from kvant.gateway.call import Call
from kvant.gateway.console import routes
from kvant.gateway.console.recent import Recent
from kvant.gateway.console.view import View
from kvant.gateway.settings.arms import Arm
from kvant.rollout import api
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import BASELINE, CANDIDATE, Comparison, Serving
from kvant.rollout.keeper import Keeper
from kvant.rollout.stores import open_store
from kvant.telemetry.rollout import RolloutCollector

log = logging.getLogger("kvant.gateway")


class Release:
    """Of a gateway with a candidate, made before it runs; `StoreError` where its state cannot be kept."""

    def __init__(self, gateway: Gateway, candidate: Arm) -> None:
        settings = gateway.settings
        self._store = open_store(settings.rollout.state)
        self.controller = Controller(
            settings.rollout,
            self._store,
            identity(candidate),
            up=lambda arm: gateway.arms[arm].up(time.monotonic()),
        )
        self.recent = Recent()
        self.answers = Answers(
            gateway,
            settings,
            _Route(self.controller, gateway.arms[CANDIDATE]),
            lambda: self.controller.phase,
            self._observe,
            _tell_drift,
            prompts_may_be_kept=settings.audit.prompts,
        )
        gateway.metrics.registry.register(
            RolloutCollector(
                self.controller.status, self.answers.fuse.phase, lambda: self.answers.patrol.ratios
            )
        )
        gateway.mount("/rollout", Starlette(routes=api.routes(self.controller)))
        routes.mount(gateway, View(gateway, self.controller, self.answers, self.recent))
        gateway.beside.append(self.run)

    async def run(self) -> None:
        """Ticks for as long as the gateway runs, and once more at its end."""
        keeper = await asyncio.to_thread(Keeper(self.controller).__enter__)
        try:
            await asyncio.Event().wait()
        finally:
            keeper.__exit__(None, None, None)
            self._store.close()

    def _observe(self, seen: Serving | Comparison) -> None:
        self.recent.observe(seen)
        self.controller.observe(seen)


def identity(arm: Arm) -> str:
    """Names what is released by how the arm is configured: other settings are another candidate.

    What a URL leads to may change behind it; then the rollout is to be started anew by hand.
    """
    text = arm.model_dump_json()
    if arm.config is not None:
        text += arm.config.read_text(encoding="utf-8", errors="replace")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _Route:
    """The controller as the gateway's router. A candidate of which no replica is up gets nothing: its users
    are answered by the baseline until it is back."""

    def __init__(self, controller: Controller, candidate: Running) -> None:
        self._controller, self._candidate = controller, candidate

    def choose(self, call: Call) -> str:
        return self._controller.choose(call.sticky) if self._candidate.up(time.monotonic()) else BASELINE


def _tell_drift(name: str, raised: bool, ratio: float) -> None:
    if raised:
        log.warning("patrol: %s is %.1f times what it was at promotion", name, ratio)
    else:
        log.info("patrol: %s is %.1f times what it was at promotion: no drift any more", name, ratio)
