"""`security`: who may connect."""

from __future__ import annotations

from pydantic import Field

from kvant.config.section import File, Section


class Security(Section):
    """Who may connect."""

    api_key_file: File | None = Field(
        default=None,
        description="File of accepted API keys, one a line (a relative path starts where kvant runs); "
        "null asks for no key.",
    )
    allow_remote: bool = Field(
        default=False, description="Let serving.host be other than loopback; needs an api_key_file."
    )
