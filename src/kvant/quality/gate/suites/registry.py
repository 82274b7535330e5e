"""Every suite by name, made from its section of the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvant.quality.gate.settings import Settings
from kvant.quality.gate.suites.base import Suite
from kvant.quality.gate.suites.code import Code
from kvant.quality.gate.suites.fidelity import Fidelity
from kvant.quality.gate.suites.golden import Golden
from kvant.quality.gate.suites.long import Long
from kvant.quality.gate.suites.longqa import Longqa
from kvant.quality.gate.suites.needle import Needle
from kvant.quality.gate.suites.summary import Summary

SUITES: dict[str, Callable[[Any], Suite]] = {
    "fidelity": Fidelity,
    "needle": Needle,
    "golden": Golden,
    "longqa": Longqa,
    "summary": Summary,
    "code": Code,
    "long": Long,
}


def chosen(settings: Settings) -> list[Suite]:
    """Those the settings name, in their order."""
    return [SUITES[name](getattr(settings, name)) for name in settings.suites]
