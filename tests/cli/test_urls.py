"""Every command that asks a server refuses an address without its scheme, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

BARE = "127.0.0.1:22001"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["doctor", "--url", BARE], 2),
        (["doctor", "--url", "http://127.0.0.1:9", "--baseline", BARE], 2),
        (["launch-check", "--url", BARE], 3),
        (["launch-check", "--url", "http://127.0.0.1:9", "--metrics", BARE], 3),
        (["gate", "--baseline", BARE], 3),
        (["plan", "--shape", "layers=2,kv_heads=2,head_dim=64,parameters=1e6", "--on", "h100",
          "--metrics", BARE], 2),
    ],
)  # fmt: skip
def test_an_address_without_its_scheme_is_refused(
    kvant_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    done = kvant_command(*words)
    assert done.status == status
    assert f"did you mean http://{BARE}?" in done.err
    assert not (tmp_path / "home").exists()


def test_a_list_for_a_server_that_is_not_there_leaves_no_folder(
    kvant_command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVANT_HOME", str(tmp_path / "home"))
    assert kvant_command("launch-check", "--url", "http://127.0.0.1:9").status == 3
    assert not (tmp_path / "home").exists()
