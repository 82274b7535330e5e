"""`kvant gateway`: gateway.yaml -> the front door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvant.cli.overrides import Assignments, collect


def gateway(
    config: Annotated[Path, typer.Option("-c", "--config", metavar="FILE", help="gateway.yaml.")] = Path(
        "gateway.yaml"
    ),
    check: Annotated[bool, typer.Option("--check", help="Read the file and end.")] = False,
    assignments: Assignments = None,
) -> None:
    """One OpenAI-compatible address before several arms: keys, limits, routing, streams, an audit log."""
    from kvant.gateway.settings import load

    overrides, flags = collect({}, assignments or ())
    settings = load(config, overrides, flags=flags).settings
    if check:
        typer.echo(f"{config}: ok")
        return
    from kvant.gateway.app import Gateway
    from kvant.gateway.serve import run

    raise typer.Exit(run(Gateway(settings)))
