"""Which addresses may connect."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


class AllowList:
    """Networks in CIDR; without any, everybody may. What stands in X-Forwarded-For is not believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(one) for one in networks)

    def admits(self, address: str | None) -> bool:
        if not self._networks:
            return True
        try:
            found = ipaddress.ip_address((address or "").partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self._networks if network.version == mapped.version)
