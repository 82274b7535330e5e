"""Run a few lines that a model wrote: own process, isolated Python, little memory and time, no network.

A second Python in an empty folder, with neither site packages nor environment, under rlimits. An audit hook
refuses sockets, processes, and all files but reading the standard library's; where the kernel allows, the
process also has a network namespace of its own with nothing in it. Good enough for completions of one line by
a model under test, and not for hostile programs: some calls of the system (mknod, listdir) ask no hook.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile

MEMORY = 512 << 20
FILE = 1 << 16
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
GRACE = 2.0

GUARD = """
import posix, posixpath, sys
def _guard(event, args, modules=sys.stdlib_module_names - {"_posixsubprocess"},
    text=str, path=posixpath.normpath, library=(sys.base_prefix + "/", sys.prefix + "/"),
    writing=posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC, no=(
    "socket.", "subprocess.", "shutil.", "ctypes.", "pty.", "os.system", "os.exec", "os.fork", "os.posix",
    "os.spawn", "os.kill", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.ch",
    "os.truncate", "os.putenv", "os.utime", "os.setxattr", "signal.pthread_kill", "syscall", "sqlite3.",
    "gc.",
)):
    bad = event.startswith(no) or (event == "import" and args[0].split(".")[0] not in modules)
    if event == "open":
        bad = not path(text(args[0])).startswith(library) or args[2] & writing
    if bad:
        raise PermissionError(event)
sys.addaudithook(_guard)
del _guard, posix, posixpath, sys
"""

_libc = ctypes.CDLL(None, use_errno=True)


def passes(program: str, seconds: float) -> bool:
    """Whether the program ends by itself, in time, without an error."""
    with tempfile.TemporaryDirectory(prefix="kvant-code-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", GUARD + program],
            cwd=folder,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
            preexec_fn=lambda: _limit(seconds),
        )
        try:
            return process.wait(seconds + GRACE) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _limit(seconds: float) -> None:
    whole = max(1, round(seconds))
    limits = {
        resource.RLIMIT_CPU: whole,
        resource.RLIMIT_AS: MEMORY,
        resource.RLIMIT_FSIZE: FILE,
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_CORE: 0,
    }
    for name, most in limits.items():
        resource.setrlimit(name, (most, most))
    _libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)  # where it is not allowed, the audit hook stands alone
