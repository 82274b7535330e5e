"""What stops a start before it begins: damaged weights, unknown options, an engine that is not ours."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from kvant import models
from tests.e2e.fixtures import small
from tests.e2e.server import MODEL, serving


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the demo model that may be damaged."""
    folder = tmp_path_factory.mktemp("model") / "smollm2"
    shutil.copytree(models.resolve(MODEL), folder)
    return folder


def refused(tmp_path: Path, settings: dict[str, Any], *arguments: str) -> str:
    """Everything a start that must fail says, and nothing of it is a traceback."""
    with serving(tmp_path, settings, *arguments) as server:
        assert server.process.wait(60) == 2
        assert "Traceback" not in server.log
        return server.log


def test_a_flipped_byte_is_refused_by_file_name(tmp_path: Path, copy: Path) -> None:
    weights = copy / "model.safetensors"
    middle = weights.stat().st_size // 2
    with weights.open("r+b") as file:
        file.seek(middle)
        (byte,) = file.read(1)
        file.seek(middle)
        file.write(bytes([byte ^ 1]))
    log = refused(tmp_path, small(model={"path": str(copy)}))
    assert f"{weights} is damaged" in log


def test_a_truncated_file_is_refused_by_name(tmp_path: Path, copy: Path) -> None:
    tokenizer = copy / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes()[:-100])
    log = refused(tmp_path, small(model={"path": str(copy)}))
    assert f"{tokenizer} is truncated" in log


def test_an_unknown_option_of_the_engine_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    log = refused(tmp_path, small(engine={"max_num_batched_token": 512}))
    assert "engine.max_num_batched_token" in log
    assert "did you mean max_num_batched_tokens" in log


def test_an_empty_file_of_keys_is_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# none yet\n")
    assert f"{keys} holds no key" in refused(tmp_path, small(security={"api_key_file": str(keys)}))


@pytest.mark.slow
def test_a_hub_that_does_not_answer_is_told_with_what_needs_no_hub(tmp_path: Path) -> None:
    with serving(tmp_path, small(), "nobody/nothing", env={"HF_HUB_OFFLINE": "1"}) as server:
        assert server.process.wait(60) == 2
        assert "Traceback" not in server.log
        last = server.log.strip().splitlines()[-1]
    assert f"Without the hub there are {MODEL}, " in last
    assert "`kvant models list`" in last
