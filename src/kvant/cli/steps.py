"""What a long command is at: a bar at a terminal, and lines where there is none, as in CI."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 60.0
"""Seconds after which a step that goes on is told of again."""

Tell = Callable[[str, str, int, int], None]
"""A step, what it does, and done of a total (0: nobody knows)."""


@contextmanager
def steps(console: Console) -> Iterator[Tell]:
    """The lines go to stderr: stdout is the report's."""
    if not console.is_terminal:
        yield Lines(lambda line: print(line, file=sys.stderr, flush=True), time.monotonic)
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("starting", total=None)

        def tell(step: str, what: str, done: int, total: int) -> None:
            shown = f"{step}: {what}" if what else step
            progress.update(bar, description=shown, completed=done, total=total or None)

        yield tell


class Lines:
    """One when a step begins, one when all of it is done, and one a minute between."""

    def __init__(self, write: Callable[[str], None], now: Callable[[], float]) -> None:
        self._write, self._now = write, now
        self._step, self._told = "", now()

    def __call__(self, step: str, what: str, done: int, total: int) -> None:
        due = step != self._step or self._now() >= self._told + EVERY
        if due or (total and done == total):
            counted = f"{done} of {total}" if total else ""
            self._write(": ".join(filter(None, (step, what, counted))))
            self._step, self._told = step, self._now()
