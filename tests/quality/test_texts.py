"""Texts: any file, long enough."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kvant.errors import ConfigError
from kvant.quality.fidelity import texts
from kvant.quality.fidelity.texts import Text


class Words:
    """A tokenizer of words; notes how much it was given."""

    def __init__(self) -> None:
        self.given: list[int] = []

    def __call__(self, text: str, verbose: bool) -> SimpleNamespace:
        self.given.append(len(text))
        return SimpleNamespace(input_ids=list(range(len(text.split()))))


def test_the_first_tokens_are_taken_and_no_book_is_read_whole() -> None:
    words = Words()
    assert Text("book", "word " * 100_000).ids(words, 50) == list(range(50))
    assert words.given == [50 * texts.LONGEST_TOKEN]


def test_a_text_of_long_tokens_is_read_whole() -> None:
    assert len(Text("t", ("x" * 500 + " ") * 60).ids(Words(), 50)) == 50


def test_a_short_text_says_how_many_tokens_it_has() -> None:
    with pytest.raises(ConfigError, match=r"text notes: 7 tokens .* but 2048 are needed; .* --tokens 7"):
        Text("notes", "a b c d e f g").ids(Words(), 2048)


def test_files_are_named_after_themselves(tmp_path) -> None:
    (tmp_path / "deep").mkdir()
    files = [tmp_path / "a.txt", tmp_path / "b.py", tmp_path / "deep" / "a.md"]
    for file in files:
        file.write_text("text")
    assert [text.name for text in texts.load(files[:2])] == ["a", "b"]
    with pytest.raises(ConfigError, match="two files are named a"):
        texts.load(files)
    with pytest.raises(ConfigError, match=r"none\.txt: No such file"):
        texts.load([tmp_path / "none.txt"])
    files[0].write_bytes(b"ab\xff")
    with pytest.raises(ConfigError, match=r"a\.txt: is no UTF-8 text \(byte 2\)"):
        texts.load(files[:1])


def test_the_default_texts_are_long_and_none_is_what_peers_are_fitted_on() -> None:
    english, code = texts.load([])
    assert min(len(english.content), len(code.content)) > 40_000
    assert texts.calibration().content not in (english.content, code.content)
