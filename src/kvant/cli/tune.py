"""`kvant tune`: which layer of a model is stored in how many bits."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer


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
    tokens: Annotated[int, typer.Option(metavar="N", help="Context of each tuning text.")] = 512,
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

    from kvant.bench import plot as drawing
    from kvant.bench import result
    from kvant.quality.fidelity import report
    from kvant.quality.tune import plot as figure
    from kvant.quality.tune import table, write
    from kvant.quality.tune.prepare import Options, prepare
    from kvant.quality.tune.tune import facts
    from kvant.quality.tune.tune import tune as run
    from kvant.recipes.console import progress

    result.check(json_file)
    drawing.check(plot)
    request = prepare(
        Options(
            model, bits, kl, ladder, recipe, text or (), eval_text or (), tokens, eval_tokens, dtype, output,
            name, force,
        )
    )  # fmt: skip
    where = report.facts(request.verify, request.held_out)
    with progress(f"tuning {request.folder.name}") as show:
        found = run(request, show)
    write.write(found, request, shlex.join(["kvant", *sys.argv[1:]]))
    if json_file is not None:
        result.write(json_file, where | facts(found, request))
    if plot is not None:
        figure.draw(plot, found, f"{model}, {','.join(request.ladder.names)}", report.note(where))
    serve = f"kvant serve {shlex.quote(model)} --recipe {shlex.quote(str(request.output))}"
    lines = [*table.lines(found, request), "", str(request.output), "", serve]
    typer.echo("\n".join(lines), err=json_file == result.STDOUT)
