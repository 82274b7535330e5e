"""Figures of hand-made arrivals, whose answers can be told without the code."""

from __future__ import annotations

import pytest

from kvant.bench.serve import figures
from kvant.bench.serve.client import Stream


def stream(sent: float, *arrivals: float) -> Stream:
    return Stream(sent, [(time, 1) for time in arrivals])


def test_one_stream():
    found = figures.of_turn([stream(10.0, 12.0, 12.5, 13.0, 14.0)])
    assert found == {
        "throughput": pytest.approx(4 / 4.0),
        "decode_throughput": pytest.approx(3 / 2.0),
        "tpot": pytest.approx(0.5),
        "ttft": pytest.approx(2.0),
    }


def test_decoding_counts_only_while_all_streams_do():
    slow_at_first = stream(0.0, 1.0, 4.0, 5.0, 6.0, 7.0)  # waited for the other one's prompt
    other = stream(0.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    found = figures.of_turn([slow_at_first, other])
    assert figures.together([slow_at_first, other]) == [1.0] * 6
    assert found["decode_throughput"] == pytest.approx(6 / 3.0)
    assert found["tpot"] == pytest.approx(1.0)
    assert found["throughput"] == pytest.approx(10 / 8.0)
    assert found["ttft"] == pytest.approx(2.5)


def test_streams_that_never_decode_together_have_no_decode_figures():
    found = figures.of_turn([stream(0.0, 1.0, 2.0), stream(0.0, 3.0, 4.0)])
    assert (found["tpot"], found["decode_throughput"]) == (None, None)
    assert found["throughput"] == pytest.approx(1.0)


def test_tokens_of_one_chunk_share_its_time():
    assert figures.together([Stream(0.0, [(1.0, 1), (2.0, 2), (2.25, 1)])]) == [0.5, 0.5, 0.25]


def turns(*values: float | None) -> list[dict[str, float | None]]:
    return [{"throughput": 1.0, "decode_throughput": 1.0, "tpot": value, "ttft": 1.0} for value in values]


def test_median_and_quartiles_over_the_rounds():
    found = figures.summary(turns(1.0, 2.0, 3.0, 4.0, 100.0))["tpot"]
    assert found == {"median": 3.0, "quartiles": [2.0, 4.0], "values": [1.0, 2.0, 3.0, 4.0, 100.0]}
    assert figures.summary(turns(5.0))["tpot"] == {"median": 5.0, "quartiles": [5.0, 5.0], "values": [5.0]}


def test_a_figure_that_a_round_lacks_is_not_summed_up():
    assert figures.summary(turns(1.0, None))["tpot"] is None


def test_ratios_above_one_are_ours():
    def side(throughput: float, seconds: float) -> dict[str, object]:
        one = {"throughput": throughput, "decode_throughput": throughput, "tpot": seconds, "ttft": seconds}
        return figures.summary([one])

    found = figures.ratios(side(10.0, 3.0), side(20.0, 1.5))
    assert found == {name: pytest.approx(2.0) for name in figures.BETTER}
    assert figures.ratios(figures.summary(turns(None)), figures.summary(turns(1.0)))["tpot"] is None


def test_spread_is_the_worst_of_both_sides():
    calm, rough = figures.summary(turns(1.0, 1.0, 1.0)), figures.summary(turns(2.0, 4.0, 6.0))
    assert figures.spread(calm, rough) == pytest.approx(0.5)
    assert figures.spread(figures.summary(turns(None)), calm) == 0.0
