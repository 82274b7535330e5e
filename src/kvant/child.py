"""Processes that we start: they end with us, and listen where nobody else does."""

from __future__ import annotations

import ctypes
import signal
import socket

_prctl = ctypes.CDLL(None).prctl  # found here, because little may happen between fork and exec
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """In the new process: a parent that is killed cannot end its children, so Linux tells them."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
