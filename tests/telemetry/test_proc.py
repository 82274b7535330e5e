"""Processes of a service, looked at while they work: real processes, sockets and threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from kvant.telemetry import proc
from kvant.telemetry.proc import Tree

SERVICE = """
import hashlib, os, socket, subprocess, sys, threading
listener = socket.create_server(("127.0.0.1", 0))
program = "kept = b'x' * (64 << 20); input()"
child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
print(listener.getsockname()[1], child.pid, flush=True)
cores = [int(core) for core in sys.argv[2].split(",")]
def work(n):
    os.sched_setaffinity(0, {cores[n % len(cores)]})
    while True:
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 100_000)
for n in range(int(sys.argv[1])):
    threading.Thread(target=work, args=(n,), daemon=True).start()
input()
child.kill()
"""


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[tuple[int, int, int]]:
    """Port, process and child of a process with so many threads that work."""
    core = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", SERVICE, str(request.param), str(core)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port, child = map(int, process.stdout.readline().split())
        yield port, process.pid, child
        process.communicate("\n")


@pytest.mark.parametrize("service", [4], indirect=True)
def test_threads_that_share_a_core_are_counted_by_what_they_do(service: tuple[int, int, int]) -> None:
    port, pid, child = service
    tree = Tree.listening(port)
    assert tree == Tree(pid)
    assert set(tree.pids()) == {pid, child}
    before = tree.times()
    time.sleep(1.0)
    working = proc.working(before, tree.times())
    assert len(working) == 4
    assert {process for process, _ in working} == {pid}
    assert len(frozenset().union(*(proc.allowed(*task) for task in working))) == 1


@pytest.mark.parametrize("service", [0], indirect=True)
def test_memory_of_children_counts(service: tuple[int, int, int]) -> None:
    port, _, _ = service
    deadline = time.monotonic() + 10
    tree = Tree.listening(port)
    assert tree is not None
    while tree.resident() < 64 << 20 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert 64 << 20 <= tree.resident() < 200 << 20


def test_a_service_of_this_very_process_is_found() -> None:
    """Looking opens a descriptor that is gone when it is looked at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert Tree.listening(listener.getsockname()[1]) == Tree(os.getpid())


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert Tree.listening(bound.getsockname()[1]) is None


def test_nothing_that_works_is_no_thread() -> None:
    assert proc.working({}, {}) == []
    assert proc.working({(1, 1): 2.0}, {(1, 1): 2.0}) == []
    assert proc.allowed(1 << 30, 1 << 30) == frozenset()
