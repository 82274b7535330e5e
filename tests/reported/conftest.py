"""The servers that the end-to-end tests share."""

from __future__ import annotations

from tests.e2e.fixtures import server, start, strict

__all__ = ["server", "start", "strict"]
