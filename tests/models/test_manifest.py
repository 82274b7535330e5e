"""Damaged, truncated, missing and foreign files are refused by name before anything is loaded."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvant.errors import ModelError
from kvant.models import manifest
from tests.models import folders

FILES = ["config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folders.write(tmp_path / "model")


@pytest.fixture
def recorded(folder: Path) -> Path:
    manifest.create(folder)
    return folder


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_first_trusted_load_records_and_later_ones_agree(folder: Path) -> None:
    digest = manifest.verify(folder, trust=True)
    assert (folder / manifest.NAME).is_file()
    assert manifest.verify(folder, trust=False) == digest
    assert manifest.verify(folder, trust=True) == digest


def test_without_trust_a_folder_without_manifest_is_refused_and_left_alone(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"no checksum manifest.*model\.trust: true"):
        manifest.verify(folder, trust=False)
    assert not (folder / manifest.NAME).exists()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("position", [0, -1])
@pytest.mark.parametrize("trust", [True, False])
def test_a_flipped_bit_is_refused_by_file_name(recorded: Path, name: str, position: int, trust: bool) -> None:
    flip(recorded / name, position)
    with pytest.raises(ModelError, match=rf"{name} is damaged"):
        manifest.verify(recorded, trust)


def test_a_flip_that_keeps_size_and_time_is_still_seen(recorded: Path) -> None:
    weights = recorded / "model.safetensors"
    before = weights.stat()
    flip(weights, -1)
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        manifest.verify(recorded, trust=False)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused_by_name(recorded: Path, name: str) -> None:
    os.truncate(recorded / name, (recorded / name).stat().st_size - 1)
    with pytest.raises(ModelError, match=rf"{name} is truncated"):
        manifest.verify(recorded, trust=True)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_missing_file_is_refused_by_name(recorded: Path, name: str) -> None:
    (recorded / name).unlink()
    with pytest.raises(ModelError, match=rf"{name} is missing"):
        manifest.verify(recorded, trust=True)


@pytest.mark.parametrize("name", ["added_tokens.json", "extra.safetensors", "modeling.py", "sub/x.json"])
def test_a_file_that_was_put_there_later_is_refused_by_name(recorded: Path, name: str) -> None:
    (recorded / name).parent.mkdir(exist_ok=True)
    (recorded / name).write_text("{}")
    with pytest.raises(ModelError, match=rf"{name} is not listed"):
        manifest.verify(recorded, trust=True)


def test_files_that_decide_nothing_may_change(recorded: Path) -> None:
    digest = manifest.verify(recorded, trust=False)
    (recorded / "README.md").write_text("read me")
    (recorded / ".cache").mkdir()
    (recorded / ".cache" / "state.json").write_text("{}")
    assert manifest.verify(recorded, trust=False) == digest


def test_the_digest_names_the_content_not_the_place(recorded: Path, tmp_path: Path) -> None:
    elsewhere = shutil.copytree(recorded, tmp_path / "elsewhere")
    (elsewhere / manifest.NAME).unlink()
    digest = manifest.verify(recorded, trust=False)
    assert manifest.verify(elsewhere, trust=True) == digest
    (elsewhere / manifest.NAME).unlink()
    flip(elsewhere / "model.safetensors", -1)
    assert manifest.verify(elsewhere, trust=True) != digest


def test_linked_files_count_as_the_files_they_point_to(folder: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in folder.iterdir():
        (linked / path.name).symlink_to(path)
    assert manifest.verify(linked, trust=True) == manifest.verify(folder, trust=True)
    flip(folder / "model.safetensors", -1)
    with pytest.raises(ModelError, match=r"linked/model\.safetensors is damaged"):
        manifest.verify(linked, trust=True)


def damage_entry(body: dict) -> None:
    body["files"]["config.json"]["sha256"] = "0" * 64


def rename_version(body: dict) -> None:
    body["version"] = 2


def drop_files(body: dict) -> None:
    del body["files"]


def blank_size(body: dict) -> None:
    body["files"]["config.json"]["bytes"] = None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damage_entry, "damaged or was edited"),
        (rename_version, "of version 2, known is 1"),
        (drop_files, "not readable"),
        (blank_size, "not readable"),
    ],
)
@pytest.mark.parametrize("trust", [True, False])
def test_a_manifest_that_was_tampered_with_is_refused(
    recorded: Path, change, message: str, trust: bool
) -> None:
    path = recorded / manifest.NAME
    body = json.loads(path.read_bytes())
    change(body)
    path.write_text(json.dumps(body))
    with pytest.raises(ModelError, match=rf"{manifest.NAME}.*{message}"):
        manifest.verify(recorded, trust)


@pytest.mark.parametrize("text", ["", "[]", "{", "\xff", "null"])
def test_a_manifest_that_is_no_manifest_is_refused(recorded: Path, text: str) -> None:
    (recorded / manifest.NAME).write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=rf"{manifest.NAME} is not readable"):
        manifest.verify(recorded, trust=True)


@pytest.mark.parametrize("cut", [1, 100, 1000])
def test_truncated_weights_are_never_recorded_as_good(folder: Path, cut: int) -> None:
    weights = folder / "model.safetensors"
    os.truncate(weights, weights.stat().st_size - cut)
    with pytest.raises(ModelError, match=r"model\.safetensors is truncated"):
        manifest.verify(folder, trust=True)
    assert not (folder / manifest.NAME).exists()


def test_a_shard_that_the_index_lists_must_be_there(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "sharded", shards=3)
    (folder / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00003\.safetensors is missing"):
        manifest.verify(folder, trust=True)


def test_an_index_that_is_no_index_is_refused(tmp_path: Path) -> None:
    folder = folders.write(tmp_path / "sharded", shards=2)
    (folder / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(ModelError, match=r"index\.json is damaged"):
        manifest.verify(folder, trust=True)


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="has no weights"):
        manifest.verify(folder, trust=True)


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json"):
        manifest.verify(tmp_path, trust=True)
    with pytest.raises(ModelError, match="does not exist"):
        manifest.verify(tmp_path / "nowhere", trust=True)


@pytest.fixture
def without_privileges() -> Iterator[Path]:
    """A folder for anyone, and no right to write elsewhere: root could write everywhere."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o777)
        was_root = os.geteuid() == 0
        if was_root:
            os.seteuid(65534)
        try:
            yield place
        finally:
            if was_root:
                os.seteuid(0)
            for path in place.rglob("*"):
                if path.is_dir():
                    path.chmod(0o755)


def test_a_folder_that_cannot_be_written_is_recorded_in_the_cache(
    without_privileges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(without_privileges / "home"))
    folder = folders.write(without_privileges / "model")
    folder.chmod(0o555)
    digest = manifest.verify(folder, trust=True)
    assert not (folder / manifest.NAME).exists()
    assert manifest.verify(folder, trust=False) == digest
    flip(folder / "model.safetensors", -1)
    with pytest.raises(ModelError, match=r"model\.safetensors is damaged"):
        manifest.verify(folder, trust=True)


def test_when_neither_folder_nor_cache_can_be_written_the_mend_is_named(
    without_privileges: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders.write(without_privileges / "model")
    folder.chmod(0o555)
    monkeypatch.setenv("KVANT_HOME", str(folder / "home"))
    with pytest.raises(ModelError, match="set KVANT_HOME"):
        manifest.verify(folder, trust=True)
