"""The progress of long work on stderr: a bar on a terminal, a line for every tenth elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, float], None]


@contextmanager
def progress(what: str) -> Iterator[Progress]:
    """A callback for `calibrate` and `models.resolve`; `what` stands before each step."""
    if sys.stderr.isatty():
        from kvant.models import console

        with console.progress(what) as show:
            yield show
    else:
        yield _lines(what)


def _lines(what: str) -> Progress:
    start, shown = time.monotonic(), -1

    def show(step: str, fraction: float) -> None:
        nonlocal shown
        if fraction == 0 or int(fraction * 10) > shown:
            shown = int(fraction * 10)
            seconds = time.monotonic() - start
            print(f"{what}: {step} ({seconds:.0f} s)", file=sys.stderr, flush=True)

    return show
