"""`kvant bench`: measurements that carry their run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kvant.cli.bench_gateway import gateway
from kvant.cli.bench_serve import serve

app = typer.Typer(name="bench", help="Measure Kvant against what it replaces.", no_args_is_help=True)
app.command()(serve)
app.command()(gateway)


@app.command()
def attention(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every row as JSON, - for stdout.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bars of the ratios: .svg, .png or .pdf.")
    ] = None,
    only: Annotated[str, typer.Option(help="Select cases: head_dim=64,group=3,format=codebook4,...")] = "",
    every: Annotated[
        bool, typer.Option("--full", help="All shapes, contexts and batches (an hour).")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads for every contender.")] = 1,
    seconds: Annotated[float, typer.Option(help="Time to spend on the rounds of one case.")] = 12.0,
    kernel: Annotated[str, typer.Option(help="auto, or a path by name: `kvant doctor` lists them.")] = "auto",
) -> None:
    """Attention over packed pages against vLLM's bf16 and fp8, torch SDPA and a plain read."""
    from kvant.bench import cases, result
    from kvant.bench import plot as drawing
    from kvant.bench.attention import AGAINST, panels, rows
    from kvant.bench.machine import describe, note

    result.check(json_file)
    drawing.check(plot)
    chosen, formats = cases.select(cases.full() if every else cases.DEFAULT, only)
    to_stderr = json_file == result.STDOUT
    columns = (*AGAINST, "plain_read")
    head = "".join(f"{name:>14}" for name in columns)
    typer.echo(f"{'times as fast as':<42}{head}   ns/vector    error", err=to_stderr)
    found: list[dict[str, Any]] = []
    for case in chosen:
        for row in rows(case, formats, threads, seconds, kernel):
            found.append(row)
            ratios = "".join(f"{row['ratio'].get(name, float('nan')):>14.2f}" for name in columns)
            numbers = f"{row['ns_per_vector']:>12.2f}{row['error']:>9.0e}"
            typer.echo(f"{case!s:<30}{row['format']:<12}{ratios}{numbers}", err=to_stderr)
    where = describe()
    if json_file is not None:
        result.write(json_file, where | {"rows": found})
    if plot is not None:
        drawing.draw(plot, panels(found), "Kvant's attention, times as fast as", note(where))
