"""`listen`: the socket of the gateway."""

from __future__ import annotations

from pydantic import Field

from kvant.config.section import File, Section
from kvant.config.serving import Host


class Listen(Section):
    """Where requests come in."""

    host: Host = Field(
        default="127.0.0.1",
        description="Address to listen on; other than loopback it needs security.allow_remote.",
    )
    port: int = Field(default=8080, ge=1, le=65535, description="Port of the OpenAI-compatible API.")
    tls_certificate: File | None = Field(
        default=None, description="PEM file of the certificate chain; read again when it changes."
    )
    tls_key: File | None = Field(default=None, description="PEM file of its private key.")
    drain_timeout: float = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description="Seconds that running requests get to finish after SIGTERM.",
    )
