"""Prompts from disk, in one's own and in public formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvant.errors import ConfigError
from kvant.quality.gate import recorded
from kvant.quality.gate.recorded import Prompt, of, read

TALK = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"prompt": "a", "max_tokens": 3}, Prompt("a", tokens=3)),
        ({"messages": TALK, "answer": "x"}, Prompt(messages=tuple(TALK), expected=("x",))),
        ({"body": {"messages": TALK}}, Prompt(messages=tuple(TALK))),
        (
            {"input": "who?", "context": "Bo did.", "answers": ["Bo"], "dataset": "qasper"},
            Prompt("Bo did.\n\nQuestion: who?\nAnswer:", expected=("Bo",)),
        ),
        (
            {"index": 0, "input": "long text. What is it?", "outputs": ["17"], "answer_prefix": " It is"},
            Prompt("long text. What is it? It is", expected=("17",)),
        ),
    ],
)
def test_records_of_every_format(record: dict, expected: Prompt) -> None:
    assert of(record) == expected


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "Expecting"),
        ("[]", "is not a JSON object"),
        ('{"text": 1}', "has neither prompt, nor messages"),
        ('{"messages": ["hi"]}', "messages: is not a list of"),
        ('{"prompt": "a", "max_tokens": 0}', "max_tokens: 0 is not a positive integer"),
        ("[" * 100_000, "recursion"),
        ('{"prompt": "a", "answers": ["b", " "]}', "answers: ' ' is not a text"),
        ('{"prompt": "a", "answer": {"b": 1}}', "answers: .* is not a text"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text(f"{json.dumps({'prompt': 'ok'})}\n\n{line}\n")
    with pytest.raises(ConfigError, match=rf"p\.jsonl:3: .*{told}"):
        read(file)


def test_no_answer_is_no_word() -> None:
    assert of({"prompt": "a", "answers": None}).expected == ()


def test_a_file_of_another_system_is_read_and_a_line_without_end_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "p.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"prompt": "a"}\r\n\r\n{"prompt": "b"}')
    assert [one.prompt for one in read(file)] == ["a", "b"]
    monkeypatch.setattr(recorded, "MAX_LINE", 16 << 20)
    file.write_text(json.dumps({"prompt": "a" * (16 << 20)}))
    with pytest.raises(ConfigError, match=r"p\.jsonl:1: is longer than 16 MiB"):
        read(file)


def test_an_empty_or_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b'{"prompt": "\xff"}')
    for name, told in (
        ("empty", "holds no prompt"),
        ("binary", "binary:1: byte 0xff is not UTF-8"),
        ("absent", "No such file"),
    ):
        with pytest.raises(ConfigError, match=told):
            read(tmp_path / name)
