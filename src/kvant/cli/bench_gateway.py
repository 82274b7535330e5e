"""`kvant bench gateway`: options -> what the proxy adds -> a table and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def gateway(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all figures as JSON, - for stdout.")
    ] = None,
    streams: Annotated[int, typer.Option(min=1, help="Streams at a time.")] = 64,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of each answer.")] = 64,
    per_token_ms: Annotated[float, typer.Option(min=1, help="The engine's time for a token.")] = 50.0,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, in each of which all sides take a turn.")] = 5,
    seconds: Annotated[float, typer.Option(min=1, help="Of one turn.")] = 8.0,
    held: Annotated[int, typer.Option(min=0, help="Streams held open at the end; 0 holds none.")] = 1000,
    litellm: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The litellm command, to measure its proxy as well.")
    ] = None,
) -> None:
    """What the gateway adds to a token's way on loopback, before an engine that streams at a fixed speed."""
    from dataclasses import asdict

    from kvant.bench import result
    from kvant.bench.gateway import run
    from kvant.bench.machine import describe

    def say(text: str) -> None:
        typer.echo(f"  {text}", err=True)

    result.check(json_file)
    plan = run.Plan(
        streams=streams,
        tokens=tokens,
        per_token=per_token_ms / 1000,
        rounds=rounds,
        seconds=seconds,
        held=held,
        litellm=litellm,
    )
    found = run.measure(plan, say)
    if held:
        found["held"] = run.hold(plan, say)
    to_stderr = json_file == result.STDOUT
    typer.echo(f"{'added, ms (median of rounds)':<30}{'p50':>10}{'p90':>10}{'p99':>10}", err=to_stderr)
    for side, added in found["added"].items():
        for what in ("token", "first"):
            cells = (added.get(f"{what}_{q}_ms") for q in ("p50", "p90", "p99"))
            row = "".join(f"{cell['median']:>10.2f}" if cell else f"{'':>10}" for cell in cells)
            typer.echo(
                f"{side + ', ' + what + ' token':<30}{row}".replace("token token", "every token"),
                err=to_stderr,
            )
    if json_file is not None:
        settings = {name: value for name, value in asdict(plan).items() if name != "litellm"}
        result.write(json_file, describe() | {"settings": settings} | found)
