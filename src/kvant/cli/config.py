"""`kvant config`: check, show and describe the configuration."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from kvant.cli.overrides import Assignments, ConfigFile, collect

if TYPE_CHECKING:
    from kvant.config import Loaded, Settings

app = typer.Typer(help="Check, show and describe the configuration.", no_args_is_help=True)


@app.command()
def check(config: ConfigFile = None, assignments: Assignments = None) -> None:
    """Validate a file and its file of keys; print every field with its value and where it was set."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from kvant.config.words import show
    from kvant.engine.keys import Keys
    from kvant.errors import ConfigError

    loaded = _resolve(config, assignments)
    try:
        Keys.load(loaded.settings.security.api_key_file)
    except ConfigError as error:
        raise ConfigError(f"{loaded.origin('security.api_key_file')}: {error}") from None
    table = Table("field", "value", "set by", box=None, pad_edge=False)
    for section, fields in loaded.settings.masked().items():
        for name, value in fields.items():
            origin = loaded.origin(f"{section}.{name}")
            row = (f"{section}.{name}", show(value), origin)
            table.add_row(*map(Text, row), style="dim" if origin == "default" else "")
    Console(soft_wrap=True).print(table)
    for warning in loaded.settings.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.echo(f"{config or 'defaults'}: ok")


@app.command()
def show(config: ConfigFile = None, assignments: Assignments = None) -> None:
    """Print the settings in effect as a YAML file, secrets hidden."""
    from kvant.config.docs import dump

    typer.echo(dump(_resolve(config, assignments).settings.masked()), nl=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of the file, for editors."""
    from kvant.config.docs import schema

    typer.echo(json.dumps(schema(), indent=2))


@app.command()
def example() -> None:
    """Print a file with every field, its default and what it is."""
    from kvant.config.docs import example

    typer.echo(example(), nl=False)


@app.command()
def docs() -> None:
    """Print the tables of docs/configuration.md."""
    from kvant.config.docs import markdown

    typer.echo(markdown(), nl=False)


def _resolve(config: ConfigFile, assignments: Assignments) -> Loaded[Settings]:
    from kvant.config import resolve
    from kvant.engine import options

    overrides, flags = collect({}, assignments or ())
    return resolve(config, overrides, flags=flags, engine_check=options.check)
