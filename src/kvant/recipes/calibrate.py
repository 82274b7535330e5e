"""From a model folder to a recipe: texts, moments, transforms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kvant.errors import CalibrationError
from kvant.models import store
from kvant.recipes import place, preset, sample, texts, traffic
from kvant.recipes.model import configuration, observer, tokenizer
from kvant.recipes.moments import Moments
from kvant.recipes.observe import Observer
from kvant.recipes.plan import Span, identity, plan
from kvant.recipes.publish import Learnt, publish
from kvant.recipes.ranges import with_ranges
from kvant.recipes.recipe import RECIPE

Progress = Callable[[str, float], None]

MAX_POSITION = 8192
"""Positions calibrated for, where the model has as many and nobody says otherwise."""


@dataclass(frozen=True)
class Job:
    """One calibration; "" and 0 are the preset's transform, no traffic and the default range."""

    model: str
    digest: str
    name: str
    preset: str
    transform: str = ""
    data: tuple[str, ...] = ()
    traffic: str = ""
    max_position: int = 0
    output: str = ""
    force: bool = False
    device: str = "cpu"
    command: str = "kvant calibrate"

    @property
    def folder(self) -> Path:
        """Where the recipe will be."""
        made = Path(self.output).expanduser() if self.output else place.folder(self.digest, self.preset)
        return made.absolute()


def calibrate(job: Job, progress: Progress = lambda step, fraction: None) -> Path:
    """The folder of the recipe, made if it is not there; `CalibrationError` says what is in the way."""
    chosen = preset.find(job.preset)
    chosen.spec()  # says now, not after minutes, that this build lacks a format
    kind = job.transform or chosen.transform
    if kind not in preset.CALIBRATED:
        raise CalibrationError(
            f"preset {job.preset} needs no calibration: `kvant serve {job.name} --preset {job.preset}`; "
            "--transform gm or diag calibrates it nevertheless"
        )
    require_place(job)
    progress("reading texts", 0.0)
    config = configuration(Path(job.model))
    length = _length(job, config)
    corpora, ids, begin = _tokens(job)
    spans, pieces = plan(ids, length, begin), sample.pieces(ids, length, begin)
    named = identity(job.digest, spans)
    lock = place.home(job.digest) / "lock"
    with store.locked(lock, lambda: progress("waiting for another calibration", 0.0)):
        if not job.force and (job.folder / RECIPE).is_file():  # the other one made it
            return job.folder
        reading = _Reading(job, progress, Span(0, pieces[0].tokens[:16]))
        moments = _moments(job, spans, named, reading)
        samples = _samples(job, pieces, reading)
        facts = {"model": job.digest, "texts": named, "transform": kind}
        calibration = moments.calibration(kind, 0, facts)
        calibration = with_ranges(calibration, samples, chosen.spec(), moments.owners)
        learnt = Learnt(kind, length, moments.tokens, tuple(corpora))
        publish(job.folder, job.preset, (job.name, job.digest), calibration, learnt, job.command)
    return job.folder


def require_place(job: Job) -> None:
    """Refuses what would be overwritten unasked, and a recipe among a model's own files."""
    folder = job.folder
    if Path(job.model).resolve() in (folder.resolve(), *folder.resolve().parents):
        raise CalibrationError(
            f"{folder} is inside the model's folder, whose files are fixed by its checksums: choose another"
        )
    if not folder.exists():
        return
    if not (folder / RECIPE).is_file():
        raise CalibrationError(f"{folder} is there and is no recipe: choose another --output")
    if not job.force:
        raise CalibrationError(f"{folder} holds a recipe already: --force replaces it")


def _length(job: Job, config: Any) -> int:
    most = int(getattr(config, "max_position_embeddings", 0) or MAX_POSITION)
    if job.max_position > most:
        raise CalibrationError(f"--max-position {job.max_position}: {job.name} has {most} positions")
    return job.max_position or min(most, MAX_POSITION)


def _tokens(job: Job) -> tuple[list[str], list[list[int]], list[int]]:
    """Names of the texts, their tokens, and what every sequence begins with (BOS, or nothing)."""
    words = tokenizer(Path(job.model))
    read = list(texts.own([Path(file) for file in job.data]) if job.data else texts.shipped(words))
    ids = [words(one.text, add_special_tokens=False)["input_ids"] for one in read]
    names = [one.name for one in read]
    if job.traffic:
        names.append("traffic")
        ids.append(traffic.tokens(Path(job.traffic), job.digest))
    begin = [words.bos_token_id] if words.bos_token_id in words("a")["input_ids"][:1] else []
    return names, ids, begin


class _Reading:
    """The model, loaded when something has to be read, and the progress of that."""

    def __init__(self, job: Job, progress: Progress, trial: Span) -> None:
        self._job, self._progress, self._trial = job, progress, trial

    @cached_property
    def observer(self) -> Observer:
        self._progress("loading the model", 0.0)
        return observer(Path(self._job.model), self._job.device, lambda: self._trial)

    def steps(self, total: int, read: int = 0, what: str = "tokens") -> Callable[[int], None]:
        """Takes the number of tokens of each forward pass."""

        def step(tokens: int) -> None:
            nonlocal read
            read += tokens
            self._progress(f"{read:,} of {total:,} {what}", read / total)

        return step


def _moments(job: Job, spans: Sequence[Span], named: str, reading: _Reading) -> Moments:
    file = place.moments(job.digest, named)
    moments = Moments.load(file, named) or Moments({})
    if moments.done == len(spans):
        return moments
    watched = reading.observer
    watched.moments = moments
    step = reading.steps(_total(spans), _total(spans[: moments.done]))
    for span in spans[moments.done :]:
        watched.read(span, step)
        moments.save(file, named)
    return moments


def _samples(job: Job, pieces: Sequence[Span], reading: _Reading) -> sample.Samples:
    named = identity(job.digest, pieces)
    file = place.samples(job.digest, named)
    found = sample.load(file, named)
    if found is None:
        step = reading.steps(_total(pieces), what="tokens for the range of errors")
        found = sample.read(reading.observer, pieces, step)
        sample.save(file, found, named)
    return found


def _total(spans: Sequence[Span]) -> int:
    return sum(len(span.tokens) for span in spans)
