"""`kvant bench serve`: options -> the served comparison -> a table, JSON and a plot."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer


def serve(
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Packaged model or model folder.")
    ] = "smollm2-135m-instruct",
    formats: Annotated[
        str,
        typer.Option(help="Kvant's formats or presets, one server each: codebook4,lossless or KEY/VALUE."),
    ] = "codebook4",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every row as JSON, - for stdout.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bars of the ratios: .svg, .png or .pdf.")
    ] = None,
    only: Annotated[str, typer.Option(help="Select cases, or name one: context=7500,streams=8")] = "",
    every: Annotated[
        bool, typer.Option("--full", help="All contexts and streams, and a fixed 1 GiB (hours).")
    ] = False,
    threads_bind: Annotated[
        str | None, typer.Option(metavar="CORES", help="Cores of either server, 0-1 or so; default: all.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Rounds of each case; default: as --seconds allows, 3 to 9.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time to spend on the rounds of one case.")] = 150.0,
    output: Annotated[
        int | None,
        typer.Option("--output", min=2, help="Tokens of each answer; default: by case, 64 or more."),
    ] = None,
    compiled: Annotated[bool, typer.Option("--compiled", help="Compile the model, on both sides.")] = False,
    block_size: Annotated[
        int | None, typer.Option(help="Tokens in a page, on both sides; default: each side's own.")
    ] = None,
    start_seconds: Annotated[float, typer.Option(help="How long a server may take to start.")] = 300.0,
) -> None:
    """Stock vLLM (bf16) against Kvant as two servers on loopback: the same flags, threads and requests."""
    from kvant.bench import plot as drawing
    from kvant.bench import result
    from kvant.bench.machine import describe, note
    from kvant.bench.serve import cases, fit, run, table
    from kvant.bench.serve import model as models
    from kvant.engine.threads import allowed_cores, bind, siblings_from_sysfs

    result.check(json_file)
    drawing.check(plot)
    # One of the full list may be named without asking for all of it.
    chosen = cases.select(cases.full() if every or only else cases.DEFAULT, only, output)
    plan = run.Plan(
        model=models.look(model),
        formats=tuple(dict.fromkeys(filter(None, formats.split(",")))),
        threads_bind=threads_bind or bind(allowed_cores(), 1, siblings_from_sysfs),
        eager=not compiled,
        block_size=block_size,
        rounds=rounds,
        seconds=seconds,
        start_seconds=start_seconds,
    )
    groups, left_out = fit.groups(chosen, plan.model, 1 + len(plan.formats), fit.available_bytes())
    for case, why in left_out:
        typer.echo(f"warning: left out {case}: {why}", err=True)
    head = describe() | {
        "settings": run.settings(plan, groups),
        "left_out": [{"case": str(case), "why": why} for case, why in left_out],
    }
    found: list[dict[str, Any]] = []
    signal.signal(signal.SIGTERM, _end)
    typer.echo(table.header(), err=json_file == result.STDOUT)
    for row in run.rows(plan, groups, say=lambda text: print(f"  {text}", file=sys.stderr, flush=True)):
        found.append(row)
        typer.echo(table.line(row), err=json_file == result.STDOUT)
        if json_file not in (None, result.STDOUT):
            result.write(json_file, head | {"rows": found})  # what is measured is kept, whatever comes
    if json_file == result.STDOUT:
        result.write(json_file, head | {"rows": found})
    if plot is not None:
        drawing.draw(plot, table.panels(found), "Kvant against stock vLLM, served", note(head))


def _end(number: int, frame: object) -> NoReturn:
    """SIGTERM ends like Ctrl-C: by way of everything that cleans up."""
    raise SystemExit(128 + number)
