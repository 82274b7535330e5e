"""The shared server, the cached recipe that faults are planted in, and how to run the command."""

from __future__ import annotations

from tests.cli.conftest import kvant_command
from tests.e2e.fixtures import server, start
from tests.quality.gate.conftest import recipe

__all__ = ["kvant_command", "recipe", "server", "start"]
