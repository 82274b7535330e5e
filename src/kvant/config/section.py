"""The base of every section and the few field types they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic_core import PydanticCustomError


class Section(BaseModel):
    """Frozen, nothing unknown accepted, nothing converted ("8" is not 8, true is not 1)."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=()
    )


def _whole(value: Any) -> Any:
    if type(value) is not int:
        raise PydanticCustomError("int_type", "not an integer")
    return value


def _plain(text: str) -> str:
    if not text or text != text.strip():
        raise PydanticCustomError("text", "must be neither empty nor padded with blanks")
    if not text.isprintable():
        raise PydanticCustomError("text", "must not contain control characters")
    return text


def _path(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip() or not value.isprintable():
            raise PydanticCustomError("text", "must be a path without control characters")
        return Path(value)
    return value


Whole = BeforeValidator(_whole)
"""Put on a Literal of integers, which by itself takes 8.0 for 8 and true for 1."""

Text = Annotated[str, AfterValidator(_plain)]
"""A printable, non-empty string without blanks around it."""

File = Annotated[Path, BeforeValidator(_path)]
"""A path; a relative one starts where kvant runs."""
