"""An arm: a server that runs, or a cache for which one is started here, on loopback, and ended."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvant.bench.serve.server import Server, end_all
from kvant.bench.serve.sides import Side
from kvant.child import free_port
from kvant.config import address
from kvant.config.words import near
from kvant.errors import ConfigError
from kvant.quality.gate.client import Client
from kvant.recipes import preset
from kvant.recipes.recipe import RECIPE

BF16 = "bf16"
"""vLLM's own 16-bit cache."""
MODEL = "smollm2-135m-instruct"
SECONDS = 86_400.0
PATIENT = {"OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "passive")}
"""Threads that spin while they wait are starved many times over when something else runs as well."""
STEP = 512
"""Tokens computed at once: log-probabilities of a whole vocabulary are in memory for each."""
START_SECONDS = 900.0
"""A preset may have to be calibrated first."""


@dataclass(frozen=True)
class Arm:
    """`what` as on the command line; `model` is the one to start, or the name to ask a running server for."""

    what: str
    model: str | None
    max_context: int

    def __post_init__(self) -> None:
        if not self.url:
            self._cache()

    @property
    def url(self) -> str | None:
        return self.what if address.is_url(self.what) else None

    def same_server(self, other: Arm) -> bool:
        """As far as their URLs tell."""
        mine, theirs = ((one.url or "").rstrip("/").removesuffix("/v1") for one in (self, other))
        return mine == theirs != ""

    @contextmanager
    def running(self) -> Iterator[Client]:
        """A client of the ready server; `EngineError` if it does not come up."""
        if self.url:
            with Client(self.url, self.model) as client:
                yield client
            return
        port = free_port()
        words = [f"--set={name}={_yaml(value)}" for name, value in self._fields(port).items()]
        command = (sys.executable, "-c", "from kvant.cli import main; main()", "serve", *words)
        with tempfile.TemporaryDirectory(prefix="kvant-gate-") as folder:
            server = Server(Side(self.what, command, PATIENT), port, Path(folder) / "log")
            try:
                server.wait(START_SECONDS)
                with Client(server.url) as client:
                    yield client
            finally:
                end_all([server])

    def _fields(self, port: int) -> dict[str, Any]:
        return {
            "model.path": self.model or MODEL,
            "serving.port": port,
            "serving.max_context": self.max_context,
            "serving.timeout": SECONDS,
            "engine.max_num_batched_tokens": STEP,
            **self._cache(),
        }

    def _cache(self) -> dict[str, Any]:
        if self.what == BF16:
            return {"kv_cache.enable_quant": False}
        if self.what in preset.names():
            return {"kv_cache.preset": self.what}
        folder = Path(self.what).expanduser()
        if folder.is_dir():
            if not (folder / RECIPE).is_file():
                raise ConfigError(f"{self.what}: is no recipe: the folder has no {RECIPE}")
            return {"kv_cache.recipe": str(folder.absolute())}
        known = (BF16, *preset.names())
        close = near(self.what, known) or address.meant(self.what)
        hint = f"did you mean {close}?" if close else f"presets: {', '.join(known)}"
        raise ConfigError(
            f"{self.what!r} is neither a URL (http://...), nor a preset, nor the folder of a recipe; {hint}"
        )


def _yaml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
