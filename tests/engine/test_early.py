"""A wrong option on vLLM's own command line is refused before vLLM loads anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvant.engine.early import check
from kvant.errors import ConfigError
from tests.engines import ENVIRONMENT

vllm = pytest.importorskip("vllm")

SERVER = str(Path(vllm.__file__).parent / "entrypoints" / "openai" / "api_server.py")
OURS = '{"kvant": {"key": "int8", "value": "int8"}}'
TYPO = '{"kvant": {"keys": "int8"}}'
ON = ("--attention-backend", "CUSTOM")
UNKNOWN = r"kvant.keys: unknown field; did you mean 'key'\?"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*ON, "--additional-config", TYPO), UNKNOWN),
        ((*ON, f"--additional_config={TYPO}"), UNKNOWN),
        ((*ON, "--additional-config.kvant.keys", "int8"), UNKNOWN),
        (("--attention-config.backend=custom", "--additional-config", TYPO), UNKNOWN),
        ((*ON, "--additional-config", '{"kvant": {"key": "int9"}}'), "int9"),
        ((*ON, "--additional-config", '{"kvant": "int8"}'), "expected an object"),
        (("--additional-config", OURS), "the attention backend is not CUSTOM"),
        (("--attention-backend", "CPU_ATTN", "--additional-config", OURS), "backend is not CUSTOM"),
        (ON, "it is not configured; give: --attention-backend"),
        ((*ON, "--additional-config", '{"other": 1}'), "it is not configured"),
    ],
)
def test_a_wrong_option_is_refused(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check([SERVER, "--model", "x", *words])
    with pytest.raises(ConfigError, match=message):
        check(["/usr/bin/vllm", "serve", "x", *words])


def test_a_wrong_option_in_a_file_of_vllm_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "vllm.yaml"
    file.write_text("attention-backend: CUSTOM\nadditional-config:\n  kvant:\n    keys: int8\n")
    with pytest.raises(ConfigError, match=UNKNOWN):
        check([SERVER, "--model", "x", "--config", str(file)])


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--help",),
        ("--port", "80", "-tp", "2", "--no-such-option"),
        (*ON, "--additional-config", OURS),
        ("-ac", '{"backend": "CUSTOM"}', "--additional-config", OURS),
        ("--additional-config", '{"other": 1}'),
        # vLLM's own to refuse
        ("--additional-config",),
        ("--additional-config", "{"),
        ("-ac", "[]", "--additional-config", OURS),
        ("--config", "/nowhere.yaml"),
    ],
)
def test_the_rest_is_left_to_vllm(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    check([SERVER, *words])
    assert "usage:" not in "".join(capfd.readouterr())


def test_other_programs_may_have_options_of_the_same_name() -> None:
    check(["/home/someone/vllm/script.py", "--additional-config", TYPO])
    check([])


def test_vllm_ends_at_once_and_our_words_come_last() -> None:
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", "/nowhere"]
    done = subprocess.run(
        [*command, *ON, "--additional-config", json.dumps({"kvant": {"keys": "int8"}})],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last == "kvant.errors.ConfigError: kvant.keys: unknown field; did you mean 'key'?"
