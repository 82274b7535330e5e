"""The tables of checks, in the order of the reports: of a machine, and of a running service."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from kvant.doctor.finding import Finding
from kvant.doctor.machine import Machine

if TYPE_CHECKING:
    from kvant.doctor.running.patient import Patient

T = TypeVar("T")
Check = Callable[[T], Iterable[Finding]]

CHECKS: list[Check[Machine]] = []
SERVICE_CHECKS: list[Check[Patient]] = []


def check(function: Check[Machine]) -> Check[Machine]:
    """Register a check of a machine."""
    CHECKS.append(function)
    return function


def service_check(function: Check[Patient]) -> Check[Patient]:
    """Register a check of a running service."""
    SERVICE_CHECKS.append(function)
    return function
