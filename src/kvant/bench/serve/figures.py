"""From arrival times to figures: of one turn, over all rounds, and of both sides against each other."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kvant.bench.serve.client import Stream

BETTER = {"throughput": 1, "decode_throughput": 1, "tpot": -1, "ttft": -1}
"""Every figure, and whether more of it is better (1) or less (-1)."""

Turn = Mapping[str, float | None]


def of_turn(streams: Sequence[Stream]) -> dict[str, float | None]:
    """The figures of one turn; None where the streams never all decode at the same time.

    throughput         answered tokens per second, from the first request to the last token
    decode_throughput  tokens per second of all streams together, while all of them decode
    tpot               seconds between two tokens of a stream, median over that same time
    ttft               seconds from a request to its first token, median over the streams
    """
    begin = min(s.sent for s in streams)
    end = max(s.arrivals[-1][0] for s in streams)
    tokens = sum(s.tokens for s in streams)
    gaps = together(streams)
    first, last = _window(streams)
    return {
        "throughput": tokens / (end - begin),
        "decode_throughput": len(gaps) / (last - first) if gaps else None,
        "tpot": statistics.median(gaps) if gaps else None,
        "ttft": statistics.median(s.arrivals[0][0] - s.sent for s in streams),
    }


def together(streams: Sequence[Stream]) -> list[float]:
    """Seconds of each token that came while all streams decoded; n tokens of one chunk took an nth each."""
    first, last = _window(streams)
    gaps: list[float] = []
    for stream in streams:
        for (before, _), (now, count) in zip(stream.arrivals, stream.arrivals[1:], strict=False):
            if first < now <= last:
                gaps += [(now - before) / count] * count
    return gaps


def _window(streams: Sequence[Stream]) -> tuple[float, float]:
    """From when the last stream begins to answer until the first one ends."""
    return max(s.arrivals[0][0] for s in streams), min(s.arrivals[-1][0] for s in streams)


def summary(turns: Sequence[Turn]) -> dict[str, Any]:
    """Median, quartiles and single values of each figure over the rounds; None where a round has none."""
    found: dict[str, Any] = {}
    for name in BETTER:
        values = [value for turn in turns if (value := turn[name]) is not None]
        if len(values) < len(turns):
            found[name] = None
            continue
        low, median, high = (
            statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        )
        found[name] = {"median": median, "quartiles": [low, high], "values": values}
    return found


def ratios(stock: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, float | None]:
    """Of the medians, turned so that above 1 is better for Kvant, whatever the figure."""
    return {
        name: (ours[name]["median"] / stock[name]["median"]) ** better if stock[name] and ours[name] else None
        for name, better in BETTER.items()
    }


def spread(*sides: Mapping[str, Any]) -> float:
    """The largest distance of the quartiles, as a share of the median, of any figure of any side."""
    found = [f for side in sides for f in side.values() if f]
    return max(float((f["quartiles"][1] - f["quartiles"][0]) / f["median"]) for f in found)
