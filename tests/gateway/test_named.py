"""What gateway.yaml names is looked at before anything starts: file and line, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvant.errors import ConfigError
from kvant.gateway import named
from kvant.gateway.settings import load

ARMS = "arms: {baseline: {urls: [http://127.0.0.1:8001]}}\n"


def problems(folder: Path, text: str) -> str:
    file = folder / "gateway.yaml"
    file.write_text(text.replace("HERE", str(folder)))
    with pytest.raises(ConfigError) as caught:
        named.check(load(file))
    return str(caught.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "the keys cannot be read: No such file or directory; `kvant keys create`"),
        ("{", "Invalid JSON: EOF while parsing an object at line 1 column 1; `kvant keys` writes this file"),
        ('{"version": 2}', "version 2 is not known here"),
    ],
)
def test_a_key_file_that_cannot_be_used(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    found = problems(tmp_path, ARMS + "security:\n  key_file: HERE/keys.json\n")
    assert found.startswith("gateway.yaml:3: security.key_file: keys.json: ")
    assert words in found


def test_every_file_is_looked_at_and_all_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "kvant.yaml").write_text("serving:\n  prot: 1\nmodel: 3\n")
    (tmp_path / "golden.jsonl").write_text('{"prompt": "one"}\n')
    text = (
        "arms:\n"
        "  baseline: {urls: [http://a], api_key_file: HERE/no.key}\n"
        "  candidate:\n"
        "    config: HERE/kvant.yaml\n"
        "patrol: {golden: HERE/golden.jsonl}\n"
        "listen: {tls_certificate: HERE/chain.pem, tls_key: HERE/key.pem}\n"
    )
    expected = (
        "gateway.yaml:6: listen.tls_certificate: chain.pem with key.pem: No such file",
        "gateway.yaml:2: arms.baseline.api_key_file: no.key: cannot be read: No such file",
        "gateway.yaml:4: arms.candidate.config: kvant.yaml:2: serving.prot: unknown field; did you mean",
        "gateway.yaml:4: arms.candidate.config: kvant.yaml:3: model: 3 is an integer",
        "gateway.yaml:5: patrol.golden: golden.jsonl: prompt 1 has no `answers`",
    )
    found = problems(tmp_path, text).splitlines()
    assert len(found) == len(expected)
    for line, words in zip(found, expected, strict=True):
        assert line.startswith(words)
