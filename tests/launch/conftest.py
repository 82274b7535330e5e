"""The shared server, and how to run the command."""

from __future__ import annotations

from tests.cli.conftest import kvant_command, kvant_process
from tests.e2e.fixtures import server, start

__all__ = ["kvant_command", "kvant_process", "server", "start"]
