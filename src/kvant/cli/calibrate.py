"""`kvant calibrate`: a model -> its recipe."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvant.errors import CalibrationError


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A packaged model or a model folder.")],
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="lossless, balanced, max, int8 or founding.")
    ] = "lossless",
    transform: Annotated[
        str | None, typer.Option(metavar="KIND", help="gm or diag; the preset's own if not given.")
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Your own text instead of the shipped one. Repeatable."),
    ] = None,
    from_traffic: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Prompts kept by monitoring.sample_traffic, besides the other text."
        ),
    ] = None,
    max_position: Annotated[
        int | None, typer.Option(metavar="N", min=256, help="Longest context to be served, in tokens.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the recipe; the cache if not given.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a recipe that is there.")] = False,
    device: Annotated[str, typer.Option(metavar="NAME", help="Where torch computes, such as cuda.")] = "cpu",
) -> None:
    """Learn a model's key transforms from text, and write its recipe.

    Without --output the recipe is the one that `kvant serve MODEL` finds by itself. A run that was
    killed goes on where it was.
    """
    from kvant import models
    from kvant.models import manifest
    from kvant.recipes.child import QUIET
    from kvant.recipes.console import progress

    # Before torch is imported, whose threads read it once.
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from kvant.recipes.calibrate import Job
    from kvant.recipes.calibrate import calibrate as make

    if transform not in (None, "gm", "diag"):
        raise CalibrationError(f"--transform {transform!r}: is neither gm nor diag")
    with progress(f"pulling {model}") as pull:
        folder = models.resolve(model, pull)
    if not isinstance(folder, Path):
        raise CalibrationError(f"{model!r} is a hub id: a recipe is pinned to files; give the model's folder")
    job = Job(
        model=str(folder),
        digest=manifest.verify(folder, trust=True),
        name=folder.absolute().name,
        preset=preset,
        transform=transform or "",
        data=tuple(str(file.absolute()) for file in data or ()),
        traffic=str(from_traffic.absolute()) if from_traffic else "",
        max_position=max_position or 0,
        output=str(output or ""),
        force=force,
        device=device,
        command=shlex.join(["kvant", *sys.argv[1:]]),
    )
    with progress(f"calibrating {job.name}") as show:
        made = make(job, show)
    typer.echo(f"{made}\n\nkvant serve {shlex.quote(model)} --recipe {shlex.quote(str(made))}")
