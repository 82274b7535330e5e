"""`kvant fidelity`: how far a quantised KV cache moves a model's predictions, on any text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from kvant.quality.fidelity.row import Row

PRESETS = "lossless,balanced,max,founding,int8"


def fidelity(
    models: Annotated[list[str] | None, typer.Argument(help="Packaged models or model folders.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="One more model; may be repeated.")] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A text to read. [default: prose and code]"),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(help=f"Presets, or names such as codebook4/codebook4+w64. [default: {PRESETS}]"),
    ] = None,
    recipe: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A recipe of `kvant calibrate`; may be repeated.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Compare with this model's 16-bit cache. [default: its own]"),
    ] = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Calibrated key transforms for +gm.")
    ] = None,
    peers: Annotated[bool, typer.Option("--peers", help="Also the literature's peers (simulated).")] = False,
    tokens: Annotated[int, typer.Option(help="Context of each text.")] = 2048,
    skip: Annotated[
        int | None, typer.Option(help="Positions not scored. [default: 17/32 of the context]")
    ] = None,
    path: Annotated[
        Literal["engine", "simulated"], typer.Option(help="The real engine, or the same in plain torch.")
    ] = "engine",
    by_position: Annotated[bool, typer.Option("--by-position", help="KL in buckets of positions.")] = False,
    by_layer: Annotated[
        bool, typer.Option("--by-layer", help="KL with one side of one layer quantised (simulated).")
    ] = False,
    dtype: Annotated[Literal["bfloat16", "float32"], typer.Option(help="Type of the model.")] = "bfloat16",
    threads: Annotated[
        str | None, typer.Option(help="Cores of the engine, as vLLM binds. [default: all]")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every row as JSON, - for stdout.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bits against KL: .svg, .png or .pdf.")
    ] = None,
) -> None:
    """Compare a quantised KV cache with the 16-bit one: KL, top-1 agreement, perplexity."""
    # Before torch is loaded: threads that wait must not take the cores from those that work.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

    from rich.console import Console
    from rich.progress import Progress

    from kvant.bench import plot as drawing
    from kvant.bench import result
    from kvant.errors import ConfigError
    from kvant.models import resolve
    from kvant.quality.fidelity import measure, report, table, texts
    from kvant.quality.fidelity import plot as figure
    from kvant.quality.fidelity.request import Request
    from kvant.quality.fidelity.settings import Settings

    wanted = [*(models or []), *(model or [])]
    if not wanted:
        raise ConfigError("name a model: a packaged one (`kvant models list`) or a folder")
    result.check(json_file)
    drawing.check(plot)
    given = preset or ([] if recipe else [PRESETS])
    presets = [name for names in given for name in names.split(",") if name]
    cores = threads or f"0-{len(os.sched_getaffinity(0)) - 1}"
    scored = tokens * 17 // 32 if skip is None else skip
    settings = Settings(tokens, scored, dtype, by_position, cores, control=control or "")
    others = [name for name in (_peers() if peers else []) if name not in presets]
    request = Request(
        presets, recipe or [], calibration, others, texts.load(text or []), settings, path == "simulated",
        resolve(control) if control else "",
    )  # fmt: skip
    console = Console(stderr=json_file == result.STDOUT, highlight=False, soft_wrap=True)
    where = report.facts(settings, request.texts)
    found: list[Row] = []
    parts: list[dict[str, Any]] = []
    for one in wanted:
        folder = resolve(one)
        ids = measure.tokens(folder, request.texts, settings)
        specs = request.specs(folder)
        console.print(f"{one}\n{table.HEAD}")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(one, total=request.steps)
            for group in measure.rows(one, folder, ids, specs, request):
                progress.advance(task)
                found += group
                for row in group:
                    console.print("\n".join([table.line(row), *table.buckets(row)]))
                _write(json_file, where, found, parts)
        for name, part in measure.layers(folder, ids, specs, settings) if by_layer else ():
            parts.append({"model": one, "preset": name, **vars(part)})
            console.print(table.sensitivity(name, part))
    _write(json_file, where, found, parts, last=True)
    if plot is not None:
        figure.draw(plot, found, others, report.note(where))


def _peers() -> list[str]:
    from kvant.quality.simulated.peers import PEERS

    return list(PEERS)


def _write(file: Path | None, where: dict[str, Any], rows: Any, parts: Any, last: bool = False) -> None:
    """A file is written anew after each configuration, stdout once."""
    from kvant.bench import result

    if file is None or (file == result.STDOUT and not last):
        return
    layers = {"layers": parts} if parts else {}
    result.write(file, where | {"rows": [row.to_json() for row in rows]} | layers)
