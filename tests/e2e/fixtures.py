"""Servers that tests share: a start costs half a minute, so one serves as many tests as it can.

Import a fixture in the conftest.py of the folder that uses it; all folders get the same server.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.server import Server, serving

KV: dict[str, dict[str, Any]] = {
    "int8": {"preset": "int8"},
    "stock": {"enable_quant": False},
    "codebook4": {"codec": "codebook", "key_bits": 4, "value_bits": 4},
}
"""Configurations of the cache by name."""

BLOCKS = 64
BLOCK_SIZE = 32
ROOM = (BLOCKS - 1) * BLOCK_SIZE
"""Tokens that fit: vLLM keeps one block back."""

Start = Callable[..., Server]

_running: dict[str, Server] = {}


def small(kv: str = "int8", **sections: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Settings of a server whose cache holds 2,016 tokens, so that its limits can be reached."""
    cache = {"max_cache_blocks": BLOCKS, "block_size": BLOCK_SIZE, **KV[kv], **sections.pop("kv_cache", {})}
    return {"kv_cache": cache, **sections}


@pytest.fixture(scope="session")
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """`start(label, settings, env)`: the ready server of this label, started once for the whole run."""

    def server(label: str, settings: dict[str, dict[str, Any]], env: dict[str, str] | None = None) -> Server:
        if label not in _running:
            stack = ExitStack()
            request.config.add_cleanup(stack.close)
            folder: Path = tmp_path_factory.mktemp(label)
            _running[label] = stack.enter_context(serving(folder, settings, env=env))
            _running[label].wait()
        return _running[label]

    return server


@pytest.fixture(scope="session")
def server(start: Start) -> Server:
    """The shared server: int8, 64 blocks, four sequences at a time, room for a dozen requests."""
    serving_ = {"max_batch": 4, "max_concurrency": 12, "timeout": 120.0, "drain_timeout": 100.0}
    return start("shared", small("int8", serving=serving_))


@pytest.fixture(scope="session")
def strict(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A server with an API key, a metrics port, two requests at a time and a short timeout.

    Its environment asks vLLM to load no plugins; ours has to be there all the same.
    """
    from tests.e2e.server import free_port

    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"# accepted keys\n\nother-key\n{KEY}\n")
    return start(
        "strict",
        small(
            "int8",
            serving={"max_concurrency": 2, "timeout": STRICT_TIMEOUT, "drain_timeout": 60.0},
            security={"api_key_file": str(keys)},
            monitoring={"metrics_port": free_port(), "log_level": "debug"},
        ),
        env={"VLLM_PLUGINS": ""},
    )


KEY = "sk-strict-0123456789"
STRICT_TIMEOUT = 8.0
