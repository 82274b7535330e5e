"""What the page shows, as plain values: never a prompt, except in `examples`, which is asked for apart."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from kvant.gateway.admission.line import ORDER
from kvant.gateway.answers.join import Answers
from kvant.gateway.app import Gateway
from kvant.gateway.console.recent import Recent
from kvant.rollout.controller import Controller
from kvant.rollout.evidence import CANDIDATE


class View:
    """Of one gateway with a release."""

    def __init__(self, gateway: Gateway, controller: Controller, answers: Answers, recent: Recent) -> None:
        self._gateway, self._controller = gateway, controller
        self._answers, self._recent = answers, recent

    def data(self) -> dict[str, Any]:
        """As of now; read once a second by every open page."""
        fuse, patrol, examples = self._answers.fuse, self._answers.patrol, self._answers.examples
        kept = examples.newest()
        return {
            "rollout": self._controller.status(),
            "arms": [self._arm(name) for name in self._gateway.arms],
            "breaker": fuse.phase(CANDIDATE),
            "drift": {"ratios": patrol.ratios, "raised": patrol.raised},
            "recent": self._recent.series(),
            "examples": {"wanted": examples.wanted, "count": len(kept), "newest": kept[0].id if kept else ""},
        }

    def examples(self) -> list[dict[str, Any]]:
        """Newest first; `ago` in seconds. Empty unless prompts may be logged."""
        now = time.monotonic()
        found = [asdict(one) for one in self._answers.examples.newest()]
        return [{**one, "ago": round(now - one.pop("at"), 1)} for one in found]

    def delete(self, id: str) -> bool:
        """Whether there was such an example."""
        return self._answers.examples.delete(id)

    def _arm(self, name: str) -> dict[str, Any]:
        arm, line, now = self._gateway.arms[name], self._gateway.lines[name], time.monotonic()
        return {
            "name": name,
            "replicas": len(arm.replicas),
            "up": sum(one.up(now) for one in arm.replicas),
            "inflight": line.running,
            "slots": arm.slots(),
            "queue": {priority: line.waiting(priority) for priority in ORDER},
            "kv": max(one.kv for one in arm.replicas),
        }
