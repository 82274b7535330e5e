"""YAML files of a plan: one strict record, or one `ConfigError` with every problem and its line."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from kvant.errors import CalibrationError, ConfigError
from kvant.recipes import strict

Record = TypeVar("Record", bound=BaseModel)


def load(file: Path, record: type[Record]) -> Record:
    try:
        return strict.load(file, record)[0]
    except CalibrationError as error:  # recipes' word for the same reading
        raise ConfigError(str(error)) from None
