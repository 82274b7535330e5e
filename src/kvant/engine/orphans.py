"""An engine whose server was killed ends by itself.

vLLM's workers notice the death of their engine process, but that process does not notice the death
of the server: killed with SIGKILL (or by the kernel for memory), a server would leave an engine behind
that holds all its memory.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading

PARENT = "KVANT_SERVE_PID"
"""Names the server to its engine, so that the engines of other servers are left alone."""


def follow_parent() -> None:
    """In an engine process of `kvant serve`: a thread that ends this process when the server is gone."""
    parent = multiprocessing.parent_process()
    if parent is None or os.environ.get(PARENT) != str(parent.pid):
        return

    def wait() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        # Nobody is left to answer to; the workers see the pipe close and end as well.
        os._exit(1)

    threading.Thread(target=wait, name="kvant-follow-parent", daemon=True).start()
