"""`serving`: where requests come in and how many run at once."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kvant.config.section import Section, Text


def _host(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.rstrip(".").split(".")
        if not all(
            label and len(label) < 64 and label.replace("-", "").replace("_", "").isalnum()
            for label in labels
        ):
            raise PydanticCustomError("host", "is neither an IP address nor a host name") from None
        if all(label.isdigit() for label in labels):
            raise PydanticCustomError("host", "is not a valid IPv4 address") from None
    return text


def is_loopback(host: str) -> bool:
    """True where only this machine can connect."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") == "localhost"


Host = Annotated[Text, AfterValidator(_host)]
"""An IP address or a host name."""


class Serving(Section):
    """Where requests come in and how many run at once."""

    host: Host = Field(
        default="127.0.0.1",
        description="Address to listen on; other than loopback it needs security.allow_remote.",
    )
    port: int = Field(default=8080, ge=1, le=65535, description="Port of the OpenAI-compatible API.")
    max_context: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="Longest prompt plus answer in tokens (max_model_len); null takes the model's own.",
    )
    max_batch: int = Field(
        default=16, ge=1, le=65536, description="Most sequences computed together (vLLM's max_num_seqs)."
    )
    max_concurrency: int = Field(
        default=64,
        ge=1,
        le=1_000_000,
        description="Most requests in flight; more are refused with Retry-After.",
    )
    timeout: float = Field(
        default=600.0, gt=0, le=604_800, description="Seconds after which a request is ended with an error."
    )
    drain_timeout: float = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description="Seconds that running requests get to finish after SIGTERM.",
    )
    tensor_parallel: int = Field(
        default=1, ge=1, le=1024, description="Devices that share every layer (vLLM's tensor_parallel_size)."
    )
