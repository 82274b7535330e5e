"""`monitoring`: what is measured and logged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvant.config.section import Section


class Monitoring(Section):
    """What is measured and logged."""

    metrics_port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of /metrics; null serves it on serving.port."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe message that is logged."
    )
