"""Memory that all layers of a process use in turn: sized at start-up, never grown while it serves."""

from __future__ import annotations

import torch


class Shared:
    """Layers run one after another, so one buffer serves them, as large as the neediest asks for."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0, dtype=torch.uint8)

    def reserve(self, size: int) -> None:
        """Make room for `size` bytes; called while the engine starts, not while it serves."""
        if size > self._buffer.numel():
            self._buffer = torch.empty(size, dtype=torch.uint8)

    def get(self) -> torch.Tensor:
        return self._buffer


SCRATCH = Shared()
"""The kernels' workspace."""
STAGING = Shared()
"""The 16-bit tiles of one step that no later step reads."""
