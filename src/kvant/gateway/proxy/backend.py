"""The arms as the proxy sees them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kvant.gateway import prompt
from kvant.gateway.arms.arm import Arm
from kvant.gateway.arms.replica import Replica
from kvant.gateway.arms.upstream import Upstream
from kvant.gateway.call import Call
from kvant.gateway.settings import Routing, Timeouts


@dataclass(frozen=True)
class Backend:
    """Arms by name, and the connections to them."""

    arms: Mapping[str, Arm]
    upstream: Upstream
    timeouts: Timeouts
    routing: Routing

    def pick(self, arm: str, call: Call, tried: Collection[Replica]) -> Replica | None:
        """The replica of this arm that the call goes to next."""
        beginning = prompt.beginning(call.body, self.routing.prefix_characters)
        limit = self.routing.long_characters
        long = limit is not None and prompt.length(call.body) > limit
        # Caches are salted by key, so two keys never share a prefix.
        prefix = f"{call.key}\0{beginning}" if beginning else ""
        return self.arms[arm].pick(time.monotonic(), prefix=prefix, long=long, tried=tried)
