"""The shared server, and the cached recipe that faults are planted in."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant import models
from kvant.quality.fidelity import names
from tests.cli.conftest import kvant_command
from tests.e2e.fixtures import server, start
from tests.e2e.server import MODEL

__all__ = ["kvant_command", "recipe", "server", "start"]


@pytest.fixture(scope="session")
def recipe() -> Path:
    """`lossless` of the demo model, calibrated now if it never was."""
    folder = models.resolve(MODEL)
    return Path(names.spec_of("lossless", folder, None).calibration).parent
