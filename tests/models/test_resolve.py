"""What the user calls a model, and the catalogue of packaged ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvant.errors import ModelError
from kvant.models import CATALOGUE, cache_root, find, folder_of, resolve


def test_a_folder_is_itself(tmp_path: Path) -> None:
    assert resolve(str(tmp_path)) == tmp_path


def test_a_packaged_model_that_is_here_needs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    folder_of("gemma3-270m").mkdir(parents=True)
    assert resolve("gemma3-270m") == tmp_path / "models" / "gemma3-270m"


def test_a_hub_id_is_left_to_vllm() -> None:
    assert resolve("Qwen/Qwen2.5-0.5B-Instruct") == "Qwen/Qwen2.5-0.5B-Instruct"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("gpt2", r"a hub id is owner/name \(openai-community/gpt2\)"),
        ("smollm2", r"did you mean smollm2-135m-instruct\?"),
        ("Qwen2.5", r"did you mean qwen2.5-coder-0.5b-instruct\?"),
    ],
)
def test_a_bare_name_that_is_not_packaged_is_refused_with_those_that_are(name: str, hint: str) -> None:
    names = ", ".join(model.name for model in CATALOGUE)
    with pytest.raises(ModelError, match=rf"{names} \(`kvant models list`\); {hint}"):
        resolve(name)


@pytest.mark.parametrize(
    "name", ["/no/such/folder", "./model", "~/no-such-model", "~nobody-known/x", "a/b/c"]
)
def test_a_path_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(ModelError, match=re.escape(repr(name)) + " does not exist"):
        resolve(name)


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_named(name: str) -> None:
    with pytest.raises(ModelError, match="names nothing"):
        resolve(name)


def test_a_file_is_not_a_model(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.touch()
    with pytest.raises(ModelError, match=r"model\.gguf.* is a file"):
        resolve(str(path))


@pytest.mark.parametrize("name", ["smollm2-135m", "SmolLM2-135M-Instruct", "gemma-3-270m"])
def test_a_slip_in_a_packaged_name_is_corrected(name: str) -> None:
    with pytest.raises(ModelError, match=r"did you mean (smollm2-135m-instruct|gemma3-270m)"):
        resolve(name)
    with pytest.raises(ModelError, match="did you mean"):
        find(name)


def test_an_unknown_packaged_name_lists_what_there_is() -> None:
    with pytest.raises(ModelError, match=", ".join(model.name for model in CATALOGUE)):
        find("llama")


def test_the_cache_is_where_kvant_home_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("KVANT_HOME")
    assert cache_root() == Path.home() / ".cache" / "kvant"


@pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
def test_rows_of_the_catalogue_are_pinned(model) -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", model.gguf_sha256)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", member.version) for member in (*model.parts, *model.notices))
    assert len(set(model.parts)) == len(model.parts) > 0
    assert "/" not in model.name
