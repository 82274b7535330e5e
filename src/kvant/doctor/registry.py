"""The table of checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvant.doctor.finding import Finding
from kvant.doctor.machine import Machine

Check = Callable[[Machine], Iterable[Finding]]

CHECKS: list[Check] = []


def check(function: Check) -> Check:
    """Register a check."""
    CHECKS.append(function)
    return function
