"""A file from text, and the lines of the error it is refused with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kvant.config import Settings, load
from kvant.errors import ConfigError

Load = Callable[[str], Settings]
Refuse = Callable[[str], list[str]]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Settings from the text of kvant.yaml in the current directory."""
    monkeypatch.chdir(tmp_path)

    def from_text(text: str) -> Settings:
        Path("kvant.yaml").write_text(text, encoding="utf-8")
        return load("kvant.yaml")

    return from_text


@pytest.fixture
def refuse(read: Load) -> Refuse:
    """The lines of the ConfigError for the text of kvant.yaml."""

    def from_text(text: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            read(text)
        return str(caught.value).splitlines()

    return from_text
