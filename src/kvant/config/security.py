"""`security`: who may connect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from kvant.config.section import Section


def _path(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip() or not value.isprintable():
            raise PydanticCustomError("text", "must be a path without control characters")
        return Path(value)
    return value


class Security(Section):
    """Who may connect."""

    api_key_file: Annotated[Path, BeforeValidator(_path)] | None = Field(
        default=None,
        description="File of accepted API keys, one a line (a relative path starts where kvant runs); "
        "null asks for no key.",
    )
    allow_remote: bool = Field(
        default=False, description="Let serving.host be other than loopback; needs an api_key_file."
    )
