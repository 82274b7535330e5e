"""The one way to a gateway's settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvant.config import Loaded, resolve_as
from kvant.gateway.settings.root import GatewaySettings


def load(
    path: Path | str | None,
    overrides: Mapping[str, Any] | None = None,
    *,
    flags: Mapping[str, str] | None = None,
) -> Loaded[GatewaySettings]:
    """Settings and where each was written; one `ConfigError` with every problem, its line and its mend."""
    return resolve_as(GatewaySettings, path, overrides, flags=flags, example="kvant gateway example > FILE")
