"""The peers of the literature, each at its best and with all its bits counted, in the simulated path."""

from kvant.quality.simulated.peers.registry import FITTED, PEERS

__all__ = ["FITTED", "PEERS"]
