"""The findings on a terminal and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kvant.doctor.examine import Examination
from kvant.doctor.finding import Level
from kvant.errors import ConfigError

MARKS = {
    Level.OK: "[green]ok[/]",
    Level.WARN: "[yellow]warn[/]",
    Level.FAIL: "[bold red]fail[/]",
    Level.UNKNOWN: "[cyan]unknown[/]",
}
WAY, READY = "in the way of serving", "ready to serve"
WRONG, SOUND = "wrong with the service", "nothing is wrong that could be measured"


def show(examination: Examination, running: bool = False) -> None:
    """One row per finding, then one line of verdict: on a machine, or on a service that runs."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in examination.findings:
        mend = f"\n[bold]mend:[/] {escape(finding.mend)}" if finding.mend else ""
        table.add_row(MARKS[finding.level], finding.what, escape(finding.why) + mend)
    console = Console()
    console.print(table)
    console.print(_verdict(examination, *((WRONG, SOUND) if running else (WAY, READY))))


def write_json(examination: Examination, file: Path) -> None:
    """To `file`; `-` is stdout."""
    text = json.dumps(examination.to_json(), indent=2) + "\n"
    if file == Path("-"):
        sys.stdout.write(text)
        return
    try:
        file.write_text(text)
    except OSError as error:
        raise ConfigError(f"cannot write --json {file}: {error.strerror}; name a file that can") from error


def _verdict(examination: Examination, bad: str, good: str) -> str:
    count = {level: sum(f.level is level for f in examination.findings) for level in Level}
    left = f", {count[Level.UNKNOWN]} could not be measured" if count[Level.UNKNOWN] else ""
    if count[Level.FAIL]:
        return f"[bold red]{count[Level.FAIL]} {bad}[/], {count[Level.WARN]} warnings{left}"
    if count[Level.WARN]:
        return f"[yellow]{good}, {count[Level.WARN]} warnings[/]{left}"
    return f"[green]{good}[/]{left}"
