"""The `kvant` command. Each command is a thin file here; what it does lives elsewhere.

To add a command: a module with a typer function or app, whose heavy imports stand inside functions
(`kvant --help` must answer at once; a test says so), and one line in `app` below.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from kvant import __version__
from kvant.cli import (
    bench,
    calibrate,
    config,
    doctor,
    fidelity,
    gate,
    gateway,
    keys,
    launch_check,
    long,
    models,
    plan,
    rollout,
    serve,
    tune,
)
from kvant.cli.complaint import complain
from kvant.errors import KvantError

MISUSE = 2
"""Exit status when the input is at fault, as for an unknown option."""

app = typer.Typer(
    name="kvant",
    help="Low-bit KV cache for vLLM: packed pages, and the proof that answers stay the same.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve")(serve.serve)
app.command("calibrate")(calibrate.calibrate)
app.command("doctor")(doctor.doctor)
app.command("fidelity")(fidelity.fidelity)
app.command("gate", cls=gate.GateCommand)(gate.gate)
app.command("launch-check", cls=gate.GateCommand)(launch_check.launch_check)
app.command("long")(long.long)
app.command("tune")(tune.tune)
app.command("plan")(plan.plan)
app.add_typer(bench.app, name="bench")
app.add_typer(models.app, name="models")
app.add_typer(gateway.app, name="gateway")
app.add_typer(keys.app, name="keys")
app.add_typer(config.app, name="config")
app.add_typer(rollout.app, name="rollout")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvant {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line; an expected error is one block on stderr and exit status 2."""
    try:
        app(arguments, prog_name="kvant")
    except KvantError as error:
        complain(error)
        sys.exit(MISUSE)
    sys.exit(0)
