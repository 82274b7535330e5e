"""The YAML of the gate is read as strictly as the service's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.errors import ConfigError
from kvant.quality.gate import settings
from kvant.quality.gate.suites.registry import SUITES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("seed: 1\nneedle:\n  lenghts: [512]\n", ":3: needle.lenghts: unknown field; did you mean lengths?"),
        ("fidelity:\n  kl: -1\n", ":2: fidelity.kl:"),
        ("suites: [needle, neddle]\n", ":1: suites[1]: 'neddle' is not"),
        ("suites: []\n", ":1: suites: [] names nothing"),
        ("needle:\n  loss: '0.1'\n", ":2: needle.loss:"),
        ("golden:\n  kl: .nan\n", ":2: golden.kl:"),
        ("code:\n  seconds: 1e300\n", ":2: code.seconds: 1e+300 must be at most 3600"),
        ("fidelity\n", ":1: 'fidelity' is text, not a mapping"),
        ("# nothing\n", ":1: null is not a mapping"),
    ],
)
def test_wrong_settings_are_refused_with_their_line(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        settings.load(file)
    assert f"{file}{told}" in str(error.value)


def test_the_example_is_what_is_taken_without_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(settings.example())
    assert settings.load(file) == settings.load(None)


def test_every_suite_has_its_section() -> None:
    assert set(SUITES) == set(settings.NAMES)
    assert all(hasattr(settings.load(None), name) for name in SUITES)


@pytest.mark.parametrize(
    ("suites", "told"), [("neddle", "did you mean needle?"), ("", "names none"), ("code,code", "twice")]
)
def test_the_command_line_is_checked_too(suites: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        settings.override(settings.load(None), suites, None)
