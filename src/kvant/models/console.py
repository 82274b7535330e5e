"""The progress of a pull on a terminal. Draws nothing before there is something to wait for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kvant.models.fetch import Progress


@contextmanager
def progress(name: str) -> Iterator[Progress]:
    """A callback for `pull` and `resolve` that draws one line on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: list[TaskID] = []

        def show(step: str, fraction: float) -> None:
            if not tasks:
                tasks.append(bars.add_task(name, total=1.0))
            # Without a known fraction the bar pulses instead of standing still.
            total = 1.0 if fraction else None
            bars.update(tasks[0], description=f"{name}: {step}", completed=fraction, total=total)

        yield show
