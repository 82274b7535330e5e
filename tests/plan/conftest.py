"""The shared server, for the plan from live traffic."""

from __future__ import annotations

from tests.e2e.fixtures import server, start

__all__ = ["server", "start"]
