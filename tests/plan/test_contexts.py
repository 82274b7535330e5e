"""Lengths of requests from flags and histograms."""

from __future__ import annotations

import pytest

from kvant.errors import ConfigError
from kvant.plan.contexts import of_file, of_flag, sums


def test_one_length_and_several():
    one = of_flag("8192", None)
    assert (one.lengths, one.shares, one.answer) == ((8192,), (1.0,), 2048)
    many = of_flag("1024:70, 8192:25,32768:5", 500)
    assert (many.lengths, many.answer, many.longest) == ((1024, 8192, 32768), 500, 32768)
    assert many.mean == pytest.approx(0.7 * 1024 + 0.25 * 8192 + 0.05 * 32768)
    assert [many.quantile(q) for q in (0.5, 0.7, 0.71, 0.95, 0.99)] == [1024, 1024, 8192, 8192, 32768]


def test_a_histogram_is_read_with_header_comments_and_blank_lines(tmp_path):
    file = tmp_path / "lengths.csv"
    file.write_text("tokens,requests\n# yesterday\n512, 30\n\n4096,10\n512,20\n")
    found = of_file(file, None)
    assert (found.lengths, found.shares, found.requests) == ((512, 4096), (50 / 60, 10 / 60), 60)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("512,1\n4096\n", r"lengths.csv:2: 1 columns; write tokens,requests"),
        ("512,1\nfour,1\n", r"lengths.csv:2: 'four' is no number of tokens"),
        ("512,1\n0,1\n", r"lengths.csv:2: '0' is no number of tokens"),
        ("512,1\n4096,-1\n", r"lengths.csv:2: '-1' is no weight"),
        ("512,1\n4096,nan\n", r"lengths.csv:2: 'nan' is no weight"),
        ("# nothing\n", "holds no requests"),
        ("512,0\n", "holds no requests"),
    ],
)
def test_a_wrong_histogram_is_named_with_its_line(tmp_path, text, message):
    file = tmp_path / "lengths.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        of_file(file, None)


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "8k", "1024:x", "1024:", "99999999999999999999", "1024:1e99"]
)
def test_a_wrong_flag_is_refused(text):
    with pytest.raises(ConfigError, match="--context: "):
        of_flag(text, None)


@pytest.mark.parametrize("answer", [0, -1, 1025])
def test_an_answer_is_part_of_its_request(answer):
    with pytest.raises(ConfigError, match="an answer of"):
        of_flag("1024", answer)


def test_two_independent_parts_put_together():
    assert sums([(100, 0.5), (200, 0.5)], [(10, 0.25), (20, 0.75), (30, 0.0)]) == [
        (110, 0.125), (120, 0.375), (210, 0.125), (220, 0.375)
    ]  # fmt: skip
