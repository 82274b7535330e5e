"""Every detector on texts whose figure can be counted by hand, and on any text at all."""

from __future__ import annotations

import inspect
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvant.quality.generation import detectors
from kvant.quality.generation.detectors import (
    Loop,
    broken,
    compression,
    loop_start,
    looping,
    loops,
    repeated,
    scripts,
    strayed,
    units,
)

PROSE = "Nobody had lit the lamp for years, and the stairs up to it were worn, wet and narrow. "
SHARES = (repeated, looping, loop_start, broken)


def test_a_unit_is_a_word_a_character_or_a_run_of_one_mark() -> None:
    expected = ["a_1", "=", "b2", ";", "=====", "茶", "很", "好", "été", "!!", "?"]
    assert units("a_1 = b2;  ===== 茶很好 été!!?") == expected


def test_repeated_is_the_share_of_grams_that_stood_before() -> None:
    assert repeated("a b c d e a b c d") == pytest.approx(1 / 6)
    assert repeated("a b c d e f g h") == 0
    assert repeated("a b a b a b", n=2) == pytest.approx(3 / 5)
    assert repeated("too short") == 0


def test_a_loop_is_found_where_it_begins_however_it_is_spaced() -> None:
    text = "one two three four " + "I do not know .\n" * 6
    assert Loop(4, 30, 5) in loops(text)
    assert looping(text) == pytest.approx(30 / 34)
    assert loop_start(text) == pytest.approx(4 / 34)


def test_a_chinese_loop_needs_no_spaces() -> None:
    assert looping("他说" + "茶很好喝" * 5) == pytest.approx(20 / 22)


@pytest.mark.parametrize("text", ["", PROSE, "ha ha ha!", PROSE * 2, "x = 1\n" + "#" * 79])
def test_what_is_no_loop(text: str) -> None:
    assert (looping(text), loop_start(text)) == (0, 1)


def test_a_paragraph_that_comes_again_is_a_loop() -> None:
    assert looping("Once. " + PROSE * 3) > 0.9


def test_compression_is_small_where_a_text_repeats() -> None:
    assert compression(PROSE * 20) < 0.1 < 0.6 < compression(PROSE)
    assert compression("") == 1


def test_broken_characters_are_those_that_no_text_has() -> None:
    assert broken("fine:\n\tjust fine, 好 \N{WOMAN}\u200d\N{PERSONAL COMPUTER}") == 0
    assert broken("نمی\u200cخواهم, क्\u200dष, \ufeff, a\u00adb") == 0, "format characters are text"
    assert broken("a\ufffd\x00b") == 0.5


def test_scripts_are_shares_of_letters_and_stray_from_those_of_the_prompt() -> None:
    assert scripts("ab, 12 茶茶") == {"LATIN": 0.5, "CJK": 0.5}
    assert strayed("tea", "茶") == 1
    assert strayed("tea and 茶 too 茶", "just tea") == pytest.approx(2 / 11)
    assert strayed("123", "茶") == 0


@settings(max_examples=50)
@given(st.text(max_size=200), st.text(max_size=40))
def test_any_text_has_figures_between_0_and_1(text: str, other: str) -> None:
    assert all(0 <= share(text) <= 1 for share in SHARES)
    assert 0 <= strayed(text, other) <= 1
    assert compression(text) > 0


@settings(max_examples=50)
@given(st.lists(st.sampled_from("ab "), max_size=60).map("".join))
def test_every_loop_is_one(text: str) -> None:
    found = units(text)
    for loop in loops(text):
        stretch = found[loop.first : loop.first + loop.length]
        assert len(stretch) == loop.length >= max(3 * loop.period, 12)
        assert stretch[loop.period :] == stretch[: -loop.period]


def test_detectors_need_no_engine() -> None:
    """The release controller runs them on live answers."""
    source = inspect.getsource(detectors)
    assert not any(name in source for name in ("import torch", "kvant.engine", "vllm"))
    assert json.dumps([share(PROSE) for share in SHARES])
