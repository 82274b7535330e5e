"""Locks, workspaces and the one step in which a finished model appears."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvant.errors import ModelError
from kvant.models import store

HOLD = """
import time
from kvant.models import store
with store.exclusive("m", lambda: None):
    with store.workspace("m", 0):
        print("held", flush=True)
        time.sleep(600)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path))
    return tmp_path


def test_a_killed_holder_gives_its_lock_back_and_its_remains_are_cleared(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        waited = []

        def waiting() -> None:
            waited.append(True)
            holder.send_signal(signal.SIGKILL)

        with store.exclusive("m", waiting):
            assert waited
            assert list((home / "models").glob(".m.*.part"))
            store.clear_stale("m")
            assert not list((home / "models").glob(".m.*.part"))


def test_models_do_not_wait_for_each_other() -> None:
    def never() -> None:
        raise AssertionError("waited for another model")

    with store.exclusive("one", never), store.exclusive("two", never):
        pass


def test_a_failure_leaves_no_workspace(home: Path) -> None:
    def fail() -> None:
        with store.exclusive("m", lambda: None), store.workspace("m", 0) as work:
            (work / "half").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in (home / "models").iterdir()] == [".m.lock"]


def test_a_full_disk_is_named_beforehand() -> None:
    with (
        store.exclusive("m", lambda: None),
        pytest.raises(ModelError, match=r"m needs 1073741824\.0 GiB .*KVANT_HOME"),
        store.workspace("m", 2**60),
    ):
        raise AssertionError("entered")


def test_a_cache_that_cannot_be_written_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "file").touch()
    monkeypatch.setenv("KVANT_HOME", str(home / "file"))
    with pytest.raises(ModelError, match=r"cannot write in the cache folder .* set KVANT_HOME"), _lock():
        raise AssertionError("entered")


def _lock():
    return store.exclusive("m", lambda: None)


def test_a_finished_folder_replaces_an_older_one_and_can_be_read_by_all(home: Path) -> None:
    for content in ("old", "new"):
        with store.exclusive("m", lambda: None), store.workspace("m", 0) as work:
            made = work / "model"
            made.mkdir()
            (made / "config.json").write_text(content)
            (made / "config.json").chmod(0o600)
            folder = store.publish(made, "m")
    assert (folder / "config.json").read_text() == "new"
    assert (folder / "config.json").stat().st_mode & 0o777 == 0o644
    assert sorted(path.name for path in (home / "models").iterdir()) == [".m.lock", "m"]
