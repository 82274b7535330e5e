"""Bars of ratios, from rows of either bench; and what is said when they cannot be drawn."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest

from kvant.bench import attention, cases, plot
from kvant.bench.serve import table
from kvant.errors import ConfigError

drawn = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra kvant[plot]")

SERVED = [
    {
        "context": 7500,
        "streams": streams,
        "memory": 1,
        "fixed_memory": fixed,
        "format": fmt,
        "ratio": {"throughput": 1.5, "decode_throughput": 2.0, "tpot": tpot, "ttft": 0.9},
    }
    for fmt, streams, fixed, tpot in (
        ("int8", 8, False, 1.25),
        ("int8", 24, True, None),
        ("polar", 8, False, 2.5),
    )
]
ATTENTION = [
    {"shape": asdict(case), "format": fmt, "ratio": {"vllm_bf16": 3.0, "vllm_fp8": 2.0, "sdpa_bf16": 9.0}}
    for case in cases.DEFAULT[:2]
    for fmt in ("int8", "codebook4")
]


def test_served_rows_become_a_panel_for_each_figure():
    panels = table.panels(SERVED)
    assert len(panels) == 3
    assert all(panel.labels == ["8 x 7500", "24 x 7500 in 1 GiB"] for panel in panels)
    assert panels[1].series == {"int8": [1.25, None], "polar": [2.5, None]}


def test_attention_rows_become_a_panel_for_each_contender():
    panels = attention.panels(ATTENTION)
    assert [panel.title for panel in panels] == ["vLLM bf16", "vLLM fp8", "torch SDPA"]
    assert panels[0].series == {"int8": [3.0, 3.0], "codebook4": [3.0, 3.0]}
    assert list(panels[0].labels) == [str(case) for case in cases.DEFAULT[:2]]


@drawn
@pytest.mark.parametrize(
    "panels", [table.panels(SERVED), attention.panels(ATTENTION)], ids=["serve", "attention"]
)
def test_a_figure_shows_labels_values_and_where_it_was_measured(tmp_path, panels):
    file = tmp_path / "figure.svg"
    plot.check(file)
    plot.draw(file, panels, "the title", "the machine")
    text = file.read_text()
    assert text.startswith("<?xml")
    for shown in ("the title", "the machine", *panels[0].labels, *panels[0].series):
        assert shown in text


def test_a_name_without_a_known_ending_is_refused():
    with pytest.raises(ConfigError, match=r"--plot figure.txt: the name must end in .svg, .png, .pdf"):
        plot.check(Path("figure.txt"))


def test_the_missing_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"matplotlib.*: /.*python\S* -m pip install 'matplotlib>=3.8'"):
        plot.check(tmp_path / "figure.svg")
