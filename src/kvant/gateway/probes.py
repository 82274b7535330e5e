"""`/health`: the process lives. `/ready`: it can answer, or why it cannot."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from kvant.gateway.arms.arm import Arm
from kvant.gateway.cast import BASELINE
from kvant.http.state import State


def health() -> Response:
    """200 as long as the event loop runs."""
    return JSONResponse({"status": "alive"})


def ready(state: State, arms: Mapping[str, Arm]) -> Response:
    """200 while calls are taken and a replica of the baseline is up; else 503 with the reason."""
    now = time.monotonic()
    up = {name: sum(one.up(now) for one in arm.replicas) for name, arm in arms.items()}
    answer: dict[str, Any] = {"status": state.phase.value, "replicas_up": up}
    if state.ready and up[BASELINE]:
        return JSONResponse(answer)
    if state.ready:
        answer |= {"status": "waiting"}
    answer["reason"] = state.reason or "no replica of the baseline is up"
    return JSONResponse(answer, 503, {"Retry-After": "5"})
