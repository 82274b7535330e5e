"""From what was typed to a request: the model, its calibration, and everything that can be refused early."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kvant import models, recipes
from kvant.errors import CalibrationError, ConfigError
from kvant.models import manifest
from kvant.quality.fidelity import names
from kvant.quality.fidelity import texts as files
from kvant.quality.fidelity.settings import Settings
from kvant.quality.tune.ladder import ladder
from kvant.quality.tune.request import Request
from kvant.recipes import place, preset
from kvant.recipes.calibrate import Job, require_place
from kvant.recipes.console import progress
from kvant.recipes.model import configuration, tokenizer
from kvant.recipes.texts import shipped

BASE = "max"
"""The preset whose calibration, sinks, window and bits are taken where none are given."""


@dataclass(frozen=True)
class Options:
    """As on the command line; None and () are its defaults."""

    model: str
    bits: float | None
    kl: float | None
    ladder: str
    recipe: Path | None
    text: Sequence[Path]
    eval_text: Sequence[Path]
    tokens: int
    eval_tokens: int
    dtype: str
    output: Path | None
    name: str
    force: bool


def prepare(options: Options) -> Request:
    """Calibrates the model if it has to; `KvantError` says what cannot be tuned, or not like this."""
    if options.bits is not None and options.kl is not None:
        raise ConfigError("--bits and --kl: give one of them, the budget that must be kept")
    if options.name in preset.names():
        raise ConfigError(
            f"--name {options.name}: is a preset's, which `kvant serve` looks for; choose another"
        )
    tuning, verify = (
        Settings(tokens, tokens * 17 // 32, options.dtype, False, "")
        for tokens in (options.tokens, options.eval_tokens)
    )
    own = files.load(options.text) if options.text else []
    held_out = files.load(options.eval_text)
    with progress(f"pulling {options.model}") as pull:
        folder = models.resolve(options.model, pull)
    if not isinstance(folder, Path):
        raise CalibrationError(
            f"{options.model!r} is a hub id: a recipe is pinned to files; give the model's folder"
        )
    digest, output = manifest.verify(folder, trust=True), str(options.output or "")
    job = Job(str(folder), digest, folder.absolute().name, options.name, output=output, force=options.force)
    require_place(job)
    kinds = getattr(configuration(folder), "layer_types", None) or ()
    base = _base(options.recipe, folder, digest)
    made, bits = base.facts.model, options.bits
    if bits is None and options.kl is None:
        bits = preset.find(BASE).spec().layout(made.head_dim, made.kv_heads).effective_bits
    corpus = own or [files.Text(one.name, one.text) for one in shipped(tokenizer(folder))]
    return Request(
        options.model,
        folder,
        job.folder,
        options.name,
        base,
        ladder(options.ladder.split(","), made.head_dim),
        bits,
        options.kl,
        corpus,
        held_out,
        tuning,
        verify,
        one_size=len(set(kinds)) > 1,
    )


def _base(recipe: Path | None, folder: Path, digest: str) -> recipes.Recipe:
    """The recipe that is tuned."""
    if recipe is None:
        names.spec_of(BASE, folder, None)  # makes it, if it is not there
        recipe = place.folder(digest, BASE)
    found = recipes.load(recipe)
    found.check_model(digest)
    return found
