"""Run `kvant` in this process, or as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import kvant
from kvant.cli import main


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str


Kvant = Callable[..., Result]


@pytest.fixture
def kvant_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kvant:
    """`kvant_command("config", "check")` as the entry point runs it."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> Result:
        with pytest.raises(SystemExit) as exit_:
            main(list(words))
        out, err = capsys.readouterr()
        return Result(int(exit_.value.code or 0), out, err)

    return run


@pytest.fixture
def kvant_process() -> Callable[..., subprocess.Popen[str]]:
    """The same in a fresh interpreter; `after` is Python that runs when the command has ended."""

    def start(*words: str, after: str = "") -> subprocess.Popen[str]:
        source = str(Path(kvant.__file__).parents[1])
        program = (
            f"import sys; sys.path.insert(0, {source!r}); sys.argv[0] = 'kvant'\n"
            # A shell that runs the tests in the background has them ignore Ctrl-C; a user's does not.
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "from kvant.cli import main\n"
            f"try:\n    main()\nfinally:\n    {after or 'pass'}\n"
        )
        return subprocess.Popen(
            [sys.executable, "-c", program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"TERM": "dumb", "COLUMNS": "100"},
        )

    return start
