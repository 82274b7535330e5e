"""One model: every configuration writes; then each reads what the 16-bit cache wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvant.cache.spec import CacheSpec
from kvant.quality.fidelity import engine as forced
from kvant.quality.fidelity.engine import BITS16, CONTROL, STOCK
from kvant.quality.fidelity.settings import Settings
from kvant.quality.generation import engine, figures
from kvant.quality.generation.decoding import SAMPLED, Writing
from kvant.quality.generation.figures import NAMES, Figures, Written, paired
from kvant.quality.generation.growth import Growth, growth


@dataclass(frozen=True)
class Model:
    """A model as the command names it, its folder and its tokenizer."""

    name: str
    folder: Path | str
    tokenizer: Any


Ids = Sequence[Sequence[int]]
Keep = Callable[[Mapping[str, list[int]]], None]


def written(
    model: Model, specs: Mapping[str, CacheSpec], writing: Writing, settings: Settings, keep: Keep
) -> Iterator[Sequence[Written]]:
    """Rows of each configuration, the control first, stock next. `keep` gets the control's sampled texts."""
    control: Ids = []
    found: list[Figures] = []
    for name, spec in {BITS16: CONTROL, STOCK: None, **specs}.items():
        texts, kernel = engine.write(model.folder, name, spec, writing, settings)
        these = [_figures(model, writing, text, prompt) for text, (prompt, *_) in _named(texts, writing)]
        if name == BITS16:
            control, found = texts, these
            keep(_whole(texts, writing))
        yield [
            Written(
                model.name, name, one.name, len(writing.prompts), len(one.seeds), kernel,
                _mean(figures.parted(texts[n], control[n]) for n in _places(writing, one.name)),
                {figure: paired(*(_table(which, figure, writing, one.name) for which in (these, found)))
                 for figure in NAMES},
            )
            for one in writing.decodings
        ]  # fmt: skip


def grown(
    model: Model, texts: Mapping[str, list[int]], specs: Mapping[str, CacheSpec], settings: Settings
) -> Iterator[Growth]:
    """KL along these texts, for stock vLLM and each configuration."""
    for rows in forced.rows(model.name, model.folder, texts, specs, settings):
        yield growth(rows)


def _figures(model: Model, writing: Writing, ids: Sequence[int], prompt: str) -> Figures:
    read = model.tokenizer.decode
    special = frozenset(model.tokenizer.all_special_ids)
    text, begun = (read(part, skip_special_tokens=True) for part in (ids, writing.prompts[prompt]))
    return figures.of(text, begun, figures.stopped(ids, special))


def _named(texts: Ids, writing: Writing) -> Iterator[tuple[Sequence[int], tuple[str, str, int, float]]]:
    return zip(texts, writing.requests(), strict=True)


def _places(writing: Writing, decoding: str) -> list[int]:
    return [n for n, request in enumerate(writing.requests()) if request[1] == decoding]


def _table(found: Sequence[Figures], figure: str, writing: Writing, decoding: str) -> list[list[float]]:
    """(prompts, seeds) of one figure."""
    by_prompt: dict[str, list[float]] = {}
    for n in _places(writing, decoding):
        by_prompt.setdefault(writing.requests()[n][0], []).append(found[n][figure])
    return list(by_prompt.values())


def _whole(texts: Ids, writing: Writing) -> dict[str, list[int]]:
    """Prompt and sampled text of the first seed, by prompt."""
    first = next(one.seeds[0] for one in writing.decodings if one.name == SAMPLED)
    return {
        prompt: [*writing.prompts[prompt], *text]
        for text, (prompt, decoding, seed, _) in _named(texts, writing)
        if (decoding, seed) == (SAMPLED, first)
    }


def _mean(values: Iterator[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
