"""Arms from settings."""

from __future__ import annotations

import asyncio
import logging

from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.replica import Replica
from kvant.gateway.settings import GatewaySettings

log = logging.getLogger("kvant.gateway")


class Fleet:
    """All arms; those that are local run as long as `run` does."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.arms = {
            name: Arm(
                name,
                [Replica(url, settings.scheduling.max_concurrency, url in arm.long_urls) for url in arm.urls],
                settings.routing.prefix_slack,
            )
            for name, arm in settings.arms.named().items()
        }

    async def run(self) -> None:
        await asyncio.Event().wait()
