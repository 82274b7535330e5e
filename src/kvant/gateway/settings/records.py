"""`audit` and `monitoring`: what is written down."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvant.config.section import File, Section


class Audit(Section):
    """A line for every request: who, what, when, how many tokens. Hash-chained."""

    file: File | None = Field(default=None, description="JSON lines; null writes none.")
    max_bytes: int = Field(
        default=64 << 20, ge=4096, le=1 << 40, description="Size at which a new file is begun."
    )
    keep: int = Field(default=10, ge=1, le=10_000, description="Full files kept beside the newest.")
    prompts: bool = Field(default=False, description="Write prompts and answers as well.")


class Monitoring(Section):
    """What the gateway says of itself."""

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe lines that are logged."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Loopback port of /metrics, without a key; null serves it on listen.port, with one.",
    )
