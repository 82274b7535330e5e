"""Which cases `--only` selects, and that answers outlast the prompts of the other streams."""

from __future__ import annotations

import pytest

from kvant.bench.serve import cases
from kvant.bench.serve.cases import BATCHED, TOGETHER, Case
from kvant.errors import ConfigError


def test_names_select_cases():
    found = cases.select(cases.full(), "context=7500,streams=8")
    assert [(c.context, c.streams, c.memory) for c in found] == [(7500, 8, 0)]


def test_a_fixed_memory_is_meant_only_where_it_is_named():
    assert {c.memory for c in cases.select(cases.full(), "context=7500")} == {0}


def test_nothing_selects_all():
    assert cases.select(cases.DEFAULT, "") == cases.DEFAULT


def test_context_and_streams_name_a_case_that_no_list_has():
    (found,) = cases.select(cases.full(), "context=100,streams=3,memory=2")
    assert (found.context, found.streams, found.memory) == (100, 3, 2)


def test_the_fixed_memory_is_selected_by_its_size():
    assert cases.select(cases.full(), "memory=1") == (cases.FIXED,)


def test_output_replaces_the_length_of_every_answer():
    assert {c.output for c in cases.select(cases.full(), "", output=7)} == {7}


@pytest.mark.parametrize("only", ["colour=3", "streams=x", "streams", "context=0", "streams=²"])
def test_unknown_names_and_values_are_refused(only):
    with pytest.raises(ConfigError, match="is not NAME=NUMBER with a name of context, streams, memory"):
        cases.select(cases.DEFAULT, only)


def test_an_empty_selection_is_refused():
    with pytest.raises(ConfigError, match="'streams=5' leaves no case"):
        cases.select(cases.full(), "streams=5")


@pytest.mark.parametrize("case", [c for c in cases.full() if not c.memory], ids=str)
def test_all_streams_decode_together_long_enough(case: Case):
    # One step computes BATCHED tokens at most; streams that decode take one each of them.
    left, first = case.context * case.streams, None
    for step in range(10_000):
        decoding = case.streams - -(-left // case.context)
        if decoding and first is None:
            first = step
        if not left:
            break
        left = max(0, left - (BATCHED - decoding))
    assert first is not None
    assert case.output - (step - first) >= TOGETHER - 1
