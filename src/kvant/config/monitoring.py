"""`monitoring`: what is measured and logged."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvant.config.section import File, Section


class Monitoring(Section):
    """What is measured and logged."""

    metrics_port: int | None = Field(
        default=None, ge=1, le=65535, description="Port of /metrics; null serves it on serving.port."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe message that is logged."
    )
    sample_traffic: File | None = Field(
        default=None,
        description="File for a sample of the prompts that are served, for `kvant calibrate --from-traffic`; "
        "null keeps none. Whoever sets it needs the consent of those who write them.",
    )
