"""Run every check on one machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

# Importing the package registers its checks, in the order in which it lists them.
from kvant.doctor import checks
from kvant.doctor.finding import Finding, Level, fail
from kvant.doctor.machine import Machine
from kvant.doctor.registry import CHECKS, Check

__all__ = ["Examination", "checks", "examine", "findings_of"]

T = TypeVar("T")


@dataclass(frozen=True)
class Examination:
    """The device and everything that was found."""

    device: dict[str, Any]
    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        return any(finding.level is Level.FAIL for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        findings = [{**asdict(finding), "level": finding.level.value} for finding in self.findings]
        return {"version": 1, "failed": self.failed, "device": self.device, "findings": findings}


def examine(machine: Machine | None = None) -> Examination:
    """All findings on `machine` (default: this one)."""
    machine = machine or Machine.here()
    return Examination(machine.facts(), findings_of(CHECKS, machine))


def findings_of(checks: Iterable[Check[T]], subject: T) -> tuple[Finding, ...]:
    """What all checks say; one that trips is a finding too."""
    return tuple(finding for check in checks for finding in _run(check, subject))


def _run(check: Check[T], subject: T) -> list[Finding]:
    try:
        return list(check(subject))
    # A doctor is called when things are broken: one check that trips must not hide the others.
    except Exception as error:
        why = f"the check itself failed: {type(error).__name__}: {error}"
        return [fail(check.__name__.replace("_", " "), why, "report it with the output of --json")]
