"""Samples the prompts of a running engine into a file, where the configuration allows it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from kvant.errors import EngineError
from kvant.recipes.traffic import Reservoir

log = logging.getLogger("kvant.server")

SAVE_SECONDS = 30.0


def require_place(path: Path) -> None:
    """Refuses, before a model is loaded, a file that could not be written."""
    if not path.parent.is_dir() or path.is_dir():
        raise EngineError(f"monitoring.sample_traffic: {path} is no file in a folder that exists")


def listen(core: Any, reservoir: Reservoir) -> None:
    """Offer every prompt that vLLM's client of the engine core sends from now on."""
    send = core.add_request_async

    async def heard(request: Any) -> None:
        if request.prompt_token_ids:
            reservoir.offer(request.prompt_token_ids)
        await send(request)

    core.add_request_async = heard


async def keep_saving(reservoir: Reservoir, path: Path) -> None:
    """Until it is cancelled, and then once more; a full disk stops no service."""
    saved = 0
    try:
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            saved = _save(reservoir, path, saved)
    finally:
        _save(reservoir, path, saved)


def _save(reservoir: Reservoir, path: Path, saved: int) -> int:
    """How many prompts had been offered when it was last saved, `saved` before."""
    if reservoir.offered == saved:
        return saved
    try:
        reservoir.save(path)
    except OSError as error:
        log.warning("monitoring.sample_traffic: %s cannot be written: %s", path, error.strerror)
        return saved
    return reservoir.offered
