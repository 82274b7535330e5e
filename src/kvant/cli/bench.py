"""`kvant bench`: measurements that carry their run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(name="bench", help="Measure Kvant against what it replaces.", no_args_is_help=True)


AGAINST = ("vllm_bf16", "vllm_fp8", "sdpa_bf16", "plain_read")


@app.callback()
def _root() -> None:
    pass


@app.command()
def attention(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write every row as JSON, - for stdout.")
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
    from kvant.bench import cases
    from kvant.bench.attention import rows
    from kvant.bench.machine import describe

    chosen, formats = cases.select(cases.full() if every else cases.DEFAULT, only)
    to_stderr = json_file == Path("-")
    head = "".join(f"{name:>12}" for name in AGAINST)
    typer.echo(f"{'times as fast as':<42}{head}   ns/vector    error", err=to_stderr)
    found: list[dict[str, Any]] = []
    for case in chosen:
        for row in rows(case, formats, threads, seconds, kernel):
            found.append(row)
            ratios = "".join(f"{row['ratio'][name]:>12.2f}" for name in AGAINST)
            numbers = f"{row['ns_per_vector']:>12.2f}{row['error']:>9.0e}"
            typer.echo(f"{case!s:<30}{row['format']:<12}{ratios}{numbers}", err=to_stderr)
    if json_file is not None:
        text = json.dumps(describe() | {"rows": found}, indent=2)
        typer.echo(text) if json_file == Path("-") else json_file.write_text(text + "\n")
