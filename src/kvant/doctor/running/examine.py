"""Run every check on one service. Apart from the machine's, which must run where libraries are broken."""

from __future__ import annotations

from kvant.doctor.examine import Examination, findings_of
from kvant.doctor.registry import SERVICE_CHECKS

# Importing the package registers its checks, in the order in which it lists them.
from kvant.doctor.running import checks
from kvant.doctor.running.patient import Patient

__all__ = ["checks", "examine"]


def examine(patient: Patient) -> Examination:
    """All findings on a service."""
    return Examination(patient.facts(), findings_of(SERVICE_CHECKS, patient))
