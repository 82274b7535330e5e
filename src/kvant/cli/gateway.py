"""`kvant gateway`: gateway.yaml -> the front door."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvant.cli.overrides import Assignments, collect

BROKEN = 1
"""Exit status of `audit` where the log is not whole."""

app = typer.Typer(help="One OpenAI-compatible address before several arms.", invoke_without_command=True)


@app.callback()
def gateway(
    context: typer.Context,
    config: Annotated[Path, typer.Option("-c", "--config", metavar="FILE")] = Path("gateway.yaml"),
    check: Annotated[
        bool, typer.Option("--check", help="Read the file and all that it names, say what is wrong, and end.")
    ] = False,
    assignments: Assignments = None,
) -> None:
    """One OpenAI-compatible address before several arms: keys, limits, routing, streams, an audit log."""
    if context.invoked_subcommand is not None:
        return
    from kvant.gateway import named
    from kvant.gateway.settings import load

    overrides, flags = collect({}, assignments or ())
    loaded = load(config, overrides, flags=flags)
    named.check(loaded)
    settings = loaded.settings
    if check:
        typer.echo(f"{config}: ok")
        return
    from kvant.gateway.app import Gateway
    from kvant.gateway.release import Release
    from kvant.gateway.serve import run

    made = Gateway(settings)
    if settings.arms.candidate is not None:
        Release(made, settings.arms.candidate)
    raise typer.Exit(run(made))


@app.command()
def example() -> None:
    """Print a gateway.yaml with every field, its default and what it is."""
    from kvant.gateway.settings.docs import example

    typer.echo(example(), nl=False)


@app.command()
def docs() -> None:
    """Print the tables of docs/gateway.md."""
    from kvant.gateway.settings.docs import markdown

    typer.echo(markdown(), nl=False)


@app.command()
def audit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="audit.file.")],
) -> None:
    """Verify the hash chain of an audit log: exit status 1 where rows were changed or are missing."""
    from kvant.gateway.audit.verify import verify

    found = verify(file)
    if found.wrong:
        typer.echo(found.wrong, err=True)
        raise typer.Exit(BROKEN)
    typer.echo(f"{file}: rows {found.first} to {found.last} are whole, the last one is {found.hash}")
