"""`kvant doctor`: is this machine ready to serve, and if not, what mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings as JSON, - for stdout.")
    ] = None,
) -> None:
    """Check versions, kernels, threads, memory and the plugin; each finding comes with its mend."""
    from kvant.doctor import examine, report

    examination = examine()
    if json_file is not None:
        report.write_json(examination, json_file)
    if json_file != Path("-"):
        report.show(examination)
    raise typer.Exit(1 if examination.failed else 0)
