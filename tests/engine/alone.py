"""A module of the tests in a process of its own: for what vLLM does only once in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.engines import ENVIRONMENT


def alone(module: str, *words: str, prompts: list[list[int]] | None = None, **env: str) -> tuple[Any, str]:
    """What `python -m module words < prompts` prints as JSON in its last line, and its log."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        input=json.dumps(prompts),
        env={**os.environ, **ENVIRONMENT, "VLLM_LOGGING_STREAM": "ext://sys.stderr", **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr
