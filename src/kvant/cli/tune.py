"""`kvant tune`: which layer of a model is stored in how many bits."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

BASE = "max"
"""The preset whose calibration, sinks and window are kept where no recipe is given."""


def tune(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A packaged model or a model folder.")],
    bits: Annotated[
        float | None,
        typer.Option(metavar="B", help="Most bits of a stored value. [default: those of `max`]"),
    ] = None,
    kl: Annotated[
        float | None,
        typer.Option(metavar="KL", help="Instead: the fewest bits within this KL (tuning text)."),
    ] = None,
    ladder: Annotated[
        str, typer.Option(metavar="FORMATS", help="What a layer may be stored in.")
    ] = "trellis2,trellis3,trellis4",
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep its key transforms, sinks and window. [default: `max`]"),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A text to tune on. [default: the calibration corpus]"),
    ] = None,
    eval_text: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A held-out text to verify on. [default: those of fidelity]"),
    ] = None,
    tokens: Annotated[int, typer.Option(metavar="N", help="Context of each tuning text.")] = 768,
    eval_tokens: Annotated[int, typer.Option(metavar="N", help="Context of each held-out text.")] = 2048,
    dtype: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Type of the model.")] = "bfloat16",
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the recipe; the cache if not given.")
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the recipe.")] = "tuned",
    force: Annotated[bool, typer.Option("--force", help="Replace a recipe that is there.")] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write everything as JSON, - for stdout.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="The front: .svg, .png or .pdf.")] = None,
) -> None:
    """Measure how much each layer's keys and values cost, and write the recipe that spends bits best.

    Measurements are kept: another budget of the same model and text takes the time of verifying.
    """
    from kvant.recipes.child import QUIET

    # Before torch is imported, whose threads read it once.
    for variable, value in QUIET.items():
        os.environ.setdefault(variable, value)

    from kvant import models, recipes
    from kvant.bench import plot as drawing
    from kvant.bench import result
    from kvant.errors import CalibrationError, ConfigError
    from kvant.models import manifest
    from kvant.quality.fidelity import names, report, texts
    from kvant.quality.fidelity.settings import Settings
    from kvant.quality.tune import ladder as rungs
    from kvant.quality.tune import plot as figure
    from kvant.quality.tune import table, write
    from kvant.quality.tune.request import Request, mixed
    from kvant.quality.tune.tune import facts
    from kvant.quality.tune.tune import tune as run
    from kvant.recipes import place, preset
    from kvant.recipes.calibrate import Job, require_place
    from kvant.recipes.console import progress
    from kvant.recipes.model import configuration, tokenizer
    from kvant.recipes.texts import shipped

    if bits is not None and kl is not None:
        raise ConfigError("--bits and --kl: give one of them, the budget that must be kept")
    result.check(json_file)
    drawing.check(plot)
    tuning = Settings(tokens, tokens * 17 // 32, dtype, False, "")
    verify = Settings(eval_tokens, eval_tokens * 17 // 32, dtype, False, "")
    own, held_out = texts.load(text) if text else [], texts.load(eval_text or [])
    if name in preset.names():
        raise ConfigError(f"--name {name}: is a preset's, which `kvant serve` looks for; choose another")
    with progress(f"pulling {model}") as pull:
        folder = models.resolve(model, pull)
    if not isinstance(folder, Path):
        raise CalibrationError(f"{model!r} is a hub id: a recipe is pinned to files; give the model's folder")
    digest = manifest.verify(folder, trust=True)
    job = Job(str(folder), digest, folder.absolute().name, name, output=str(output or ""), force=force)
    require_place(job)
    config = configuration(folder)
    if recipe is None:
        names.spec_of(BASE, folder, None)  # calibrates the model if it was not
    base = recipes.load(recipe or place.folder(digest, BASE))
    base.check_model(digest)
    made = base.facts.model
    if bits is None and kl is None:
        bits = preset.find(BASE).spec().layout(made.head_dim, made.kv_heads).effective_bits
    corpus = own or [texts.Text(one.name, one.text) for one in shipped(tokenizer(folder))]
    request = Request(
        model, folder, base, rungs.ladder(ladder.split(","), made.head_dim), bits, kl, corpus, held_out,
        tuning, verify, mixed(config),
    )  # fmt: skip
    where = report.facts(verify, held_out)
    with progress(f"tuning {job.name}") as show:
        found = run(request, show)
    write.write(job.folder, name, found, request, shlex.join(["kvant", *sys.argv[1:]]))
    typer.echo("\n".join(table.lines(found, request)), err=json_file == result.STDOUT)
    if json_file is not None:
        result.write(json_file, where | facts(found, request) | {"recipe": str(job.folder)})
    if plot is not None:
        figure.draw(plot, found, f"{model}, {','.join(request.ladder.names)}", report.note(where))
    serve = f"kvant serve {shlex.quote(model)} --recipe {shlex.quote(str(job.folder))}"
    typer.echo(f"\n{job.folder}\n\n{serve}", err=json_file == result.STDOUT)
