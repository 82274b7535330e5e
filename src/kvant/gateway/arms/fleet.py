"""All arms of the settings, with the engines that belong to them."""

from __future__ import annotations

import asyncio

from kvant.child import free_port
from kvant.errors import ConfigError
from kvant.gateway import settings
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.local import Child
from kvant.gateway.arms.replica import Replica
from kvant.gateway.settings import GatewaySettings


class Fleet:
    """Arms by name; the engines of local ones run as long as `run` does."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._children: list[Child] = []
        self.arms = {
            name: Arm(name, self._replicas(name, arm, settings), settings.routing.prefix_slack)
            for name, arm in settings.arms.named().items()
        }

    async def run(self) -> None:
        """Until cancelled, and until all engines have ended then."""
        await asyncio.gather(*(child.run() for child in self._children))

    def _replicas(self, name: str, arm: settings.Arm, all_: GatewaySettings) -> list[Replica]:
        urls = (
            [f"http://127.0.0.1:{free_port()}" for _ in range(arm.replicas)] if arm.local else list(arm.urls)
        )
        headers = authorisation(arm)
        replicas = [
            Replica(url, all_.scheduling.max_concurrency, url in arm.long_urls, headers=headers)
            for url in urls
        ]
        if arm.local:
            for one in replicas:
                one.absent()
            self._children += [Child(name, arm, replica) for replica in replicas]
        return replicas


def authorisation(arm: settings.Arm) -> dict[str, str]:
    """What the arm's engines want to see of us."""
    if arm.api_key_file is None:
        return {}
    file = arm.api_key_file
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {getattr(error, 'strerror', 'is no ASCII')}") from None
    if not lines or not lines[0].strip():
        raise ConfigError(f"{file}: holds no key in its first line")
    return {"Authorization": f"Bearer {lines[0].strip()}"}
