"""`security`: who may come in."""

from __future__ import annotations

import ipaddress
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from kvant.config.section import File, Section, Text


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        raise PydanticCustomError(
            "network", "is no network such as 10.0.0.0/8", {"why": str(error)}
        ) from None
    return text


class Security(Section):
    """Who may come in."""

    key_file: File | None = Field(
        default=None,
        description="Keys made by `kvant keys`, hashed; read again when it changes. null asks for no key.",
    )
    allow: Annotated[tuple[Annotated[Text, AfterValidator(_network)], ...], Field(strict=False)] = Field(
        default=(), description="Networks (CIDR) that may connect; empty lets every address."
    )
    allow_remote: bool = Field(
        default=False, description="Let listen.host be other than loopback; needs a key_file."
    )
