"""What a model wrote is run, and reaches nothing."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from kvant.quality.gate.sandbox import passes


def test_right_passes_and_wrong_does_not() -> None:
    assert passes("import json, math\nassert json.loads('[1]') == [int(math.cos(0))]", 5)
    assert passes("import ast, decimal, random, re, typing; random.random()", 5)
    assert not passes("assert 1 == 2", 5)
    assert not passes("def", 5)


@pytest.mark.parametrize(
    "program",
    [
        "open('x', 'w')",
        "open('/etc/passwd')",
        f"open({__file__!r})",
        "import os; os.system('true')",
        "import os; os.fork()",
        "import subprocess; subprocess.run(['true'])",
        "import ctypes; ctypes.CDLL(None)",
        "import os, sys; os.open(sys.base_prefix + '/kvant-was-here', os.O_WRONLY | os.O_CREAT)",
        "import sys; open(sys.base_prefix + '/../' * 9 + 'etc/passwd')",
        "import sys; sys.prefix = '/'; str = lambda _: sys.base_prefix; open('/etc/passwd')",
        "import _posixsubprocess",
        "import sqlite3; sqlite3.connect('x')",
        "import gc; gc.get_objects()",
        "import os; os.utime('.')",
        "import numpy",
        "import kvant",
        "x = 'a' * (1 << 31)",
    ],
)
def test_it_reaches_nothing(program: str) -> None:
    assert not passes(program, 5)


def test_it_has_no_network() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not passes(f"import socket; socket.create_connection(('127.0.0.1', {port}))", 5)


def test_it_ends() -> None:
    assert not passes("while True: pass", 1)
    assert not passes("import time; time.sleep(60)", 0.5)


def test_it_sees_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    assert passes("import os; assert 'SECRET_TOKEN' not in os.environ", 5)
    assert Path(sys.executable).exists()
