"""Suites whose answers are right or wrong: one judgement for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from kvant.quality.gate import stats
from kvant.quality.gate.suites.base import SHOWN, Cell, Example, Judgement, Pair
from kvant.quality.gate.verdict import loses_at_most

FLOOR = 0.5
"""Share of right answers below which a baseline has little to lose, which the report then says."""
WRONG = 4
"""Examples of what both arms answer wrongly, where the baseline does badly."""


def judge(
    pairs: Sequence[Pair],
    right: Callable[[Any, Any], bool],
    example: Callable[[Pair], Example],
    margin: float,
    alpha: float,
    cell: Callable[[Any], tuple[str, str]] | None = None,
) -> Judgement:
    """`right(task, answer)`; `cell(task)` is the (row, column) of the heatmap."""
    marks = [(right(pair.task, pair.baseline), right(pair.task, pair.candidate)) for pair in pairs]
    won, lost = stats.discordant(marks)
    method = (
        f"exact: {lost} lost, {won} won of {len(marks)}; Clopper-Pearson of both, alpha split; "
        f"McNemar p = {stats.mcnemar(marks):.3g}"
    )
    scores = (_share(marks, 0), _share(marks, 1))
    check = loses_at_most("right answers gained", stats.gain(marks, alpha), margin, method, scores[0])
    apart = [pair for pair, (before, after) in zip(pairs, marks, strict=True) if before != after]
    cells = _cells(pairs, marks, cell) if cell else []
    examples = [example(one) for one in apart[:SHOWN]]
    wrong = [pair for pair, mark in zip(pairs, marks, strict=True) if not any(mark)]
    examples += both_wrong(map(example, wrong), scores[0])
    return Judgement([check], {"right": scores}, examples, cells, little_to_lose(scores[0]))


def both_wrong(examples: Iterable[Example], score: float) -> list[Example]:
    """Some of them where the baseline does badly: most often the prompts are not what was meant."""
    shown = list(islice(examples, WRONG)) if score < FLOOR else []
    return [replace(one, where=f"both are wrong{one.where and f'; {one.where}'}") for one in shown]


def little_to_lose(score: float) -> list[str]:
    """A note where the baseline does badly."""
    return [f"the baseline has {score:.0%}: it has little to lose here"] if score < FLOOR else []


def _cells(
    pairs: Sequence[Pair], marks: Sequence[tuple[bool, bool]], cell: Callable[[Any], tuple[str, str]]
) -> list[Cell]:
    groups: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for pair, mark in zip(pairs, marks, strict=True):
        groups.setdefault(cell(pair.task), []).append(mark)
    return [Cell(*place, _share(some, 0), _share(some, 1), len(some)) for place, some in groups.items()]


def _share(marks: Sequence[tuple[bool, bool]], arm: int) -> float:
    return sum(mark[arm] for mark in marks) / max(1, len(marks))
