"""gateway.yaml -> typed, strict settings, with kvant.config's own reader and words."""

from kvant.gateway.settings.arms import Arm, Arms
from kvant.gateway.settings.limits import Limits, Routing, Scheduling, Timeouts
from kvant.gateway.settings.listen import Listen
from kvant.gateway.settings.load import load
from kvant.gateway.settings.records import Audit, Monitoring
from kvant.gateway.settings.root import GatewaySettings
from kvant.gateway.settings.security import Security

__all__ = [
    "Arm",
    "Arms",
    "Audit",
    "GatewaySettings",
    "Limits",
    "Listen",
    "Monitoring",
    "Routing",
    "Scheduling",
    "Security",
    "Timeouts",
    "load",
]
