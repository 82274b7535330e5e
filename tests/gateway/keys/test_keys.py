"""Keys: what opens, what no longer opens, and what is never written down."""

from __future__ import annotations

import json
import re
import resource
import stat
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvant.cli import app
from kvant.errors import ConfigError
from kvant.gateway.keys import file as files
from kvant.gateway.keys.file import KeyFile, changing, read
from kvant.gateway.keys.key import made
from kvant.gateway.keys.ring import Keyring

DAY = 86_400.0


def test_a_key_opens_until_it_expires() -> None:
    key, text = made("one", ("generate",), now=0.0, expires=100.0)
    ring = Keyring([key])
    assert ring.admit(f"Bearer {text}", 99.0) is key
    assert ring.admit(f"bearer  {text} ", 99.0) is key
    assert ring.admit(f"Bearer {text}", 100.0) is None
    for wrong in (
        None,
        "",
        text,
        f"Basic {text}",
        f"Bearer {text}x",
        f"Bearer {text[:-1]}x",
        "Bearer kvant__",
    ):
        assert ring.admit(wrong, 0.0) is None
    other, stolen = made("two", ("generate",), now=0.0)
    assert ring.admit(f"Bearer {stolen}", 0.0) is None
    mixed = stolen.replace(other.id, key.id)
    assert ring.admit(f"Bearer {mixed}", 0.0) is None


def test_rotation_overlaps_and_keeps_the_id() -> None:
    key, old = made("one", ("generate",), now=0.0)
    key, new = key.renewed(now=10.0, overlap=5.0, expires=None)
    ring = Keyring([key])
    assert {ring.admit(f"Bearer {text}", 14.9) for text in (old, new)} == {key}
    assert ring.admit(f"Bearer {old}", 15.0) is None
    key, newest = key.renewed(now=20.0, overlap=0.0, expires=None)
    ring = Keyring([key])
    assert ring.admit(f"Bearer {new}", 20.0) is None
    assert ring.admit(f"Bearer {newest}", 20.0) is key


def test_the_command_line_makes_lists_rotates_and_revokes(tmp_path: Path) -> None:
    file, run = tmp_path / "keys.json", CliRunner()

    def keys(*words: str) -> str:
        done = run.invoke(app, ["keys", *words, "--file", str(file)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout.strip()

    text = keys("create", "alice", "--scope", "generate", "--scope", "metrics", "--days", "1")
    key = read(file).admit(f"Bearer {text}", 0.0)
    assert key is not None
    assert key.scopes == ("generate", "metrics")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = text.rpartition("_")[2]
    assert secret not in file.read_text()
    assert text.split("_")[2] not in repr(read(file).keys)
    listed = keys("list")
    assert "alice" in listed
    assert secret not in listed
    rotated = keys("rotate", key.id, "--overlap-hours", "0")
    assert read(file).admit(f"Bearer {text}", 0.0) is None
    assert read(file).admit(f"Bearer {rotated}", 0.0) is not None
    keys("revoke", key.id)
    assert read(file).keys == {}
    with pytest.raises(ConfigError, match="no such key"):
        keys("revoke", key.id)
    with pytest.raises(ConfigError, match=r"--scope root: is not one of generate, metrics, admin"):
        keys("create", "--scope", "root")


def test_a_new_file_of_keys_is_said_to_be_one_with_what_may_be_meant(tmp_path: Path) -> None:
    def create(name: str) -> list[str]:
        done = CliRunner().invoke(app, ["keys", "create", "--file", str(tmp_path / name)])
        assert done.exit_code == 0
        assert done.stdout.startswith("kvant_")
        return done.stderr.replace(f"{tmp_path}/", "").splitlines()

    new = "note: {0} is a new file of keys ({0}); a gateway reads it as security.key_file"
    assert create("keys.json") == [new.format("keys.json")]
    assert create("keys.json") == []
    (tmp_path / "gateway.yaml").write_text(
        f"arms: {{baseline: {{urls: [http://a]}}}}\nsecurity: {{key_file: {tmp_path}/keys.json}}\n"
    )
    (tmp_path / "gateway-old.yaml").write_text("[")
    (tmp_path / "typo.yml").write_text("")
    assert create("kyes.json") == [
        new.format("kyes.json"),
        "note: did you mean --file keys.json, which has 2 keys?",
        "note: gateway.yaml:2 names another: keys.json",
    ]
    assert create("typo.yaml") == [new.format("typo.yaml"), "note: gateway.yaml:2 names another: keys.json"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "Invalid JSON"),
        ('{"keys": [{"id": "SECRET-VALUE"}]}', "keys.0.id"),
        ('{"keys": [], "more": 1}', "more"),
        ('{"version": 2}', "version 2"),
    ],
)
def test_a_damaged_file_is_refused_without_its_content(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "keys.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(words)) as caught:
        read(file)
    assert "SECRET" not in str(caught.value)


def test_a_changed_file_counts_and_a_damaged_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.0)
    file = tmp_path / "keys.json"
    key, text = made("one", ("generate",), now=0.0)
    with changing(file) as write:
        write(Keyring([key]))
    opened = KeyFile(file)
    assert opened.ring().admit(f"Bearer {text}", 0.0) is not None
    file.write_text("{")
    assert opened.ring().admit(f"Bearer {text}", 0.0) is not None
    with changing(file) as write:
        write(Keyring())
    assert opened.ring().admit(f"Bearer {text}", 0.0) is None


def test_a_key_revoked_while_the_file_cannot_be_opened_is_revoked_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOOK_SECONDS", 0.0)
    file = tmp_path / "keys.json"
    key, text = made("one", ("generate",), now=0.0)
    with changing(file) as write:
        write(Keyring([key]))
    opened = KeyFile(file)
    with changing(file) as write:
        write(Keyring())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert opened.ring().admit(f"Bearer {text}", 0.0) is not None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert opened.ring().admit(f"Bearer {text}", 0.0) is None


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"

    def add() -> None:
        for _ in range(10):
            with changing(file) as write:
                ring = read(file) if file.exists() else Keyring()
                write(ring.with_key(made("", ("generate",), 0.0)[0]))

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(file.read_text())["keys"]) == 40
