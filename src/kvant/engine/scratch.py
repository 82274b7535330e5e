"""The kernels' scratch memory: one buffer for all layers of a process, sized at start-up, never grown."""

from __future__ import annotations

import torch


class Scratch:
    """Layers run one after another, so they share one buffer as large as the neediest asks for."""

    _buffer: torch.Tensor = torch.empty(0, dtype=torch.uint8)

    @classmethod
    def reserve(cls, size: int) -> None:
        """Make room for `size` bytes; called while the engine starts, not while it serves."""
        if size > cls._buffer.numel():
            cls._buffer = torch.empty(size, dtype=torch.uint8)

    @classmethod
    def get(cls) -> torch.Tensor:
        return cls._buffer


class Staging(Scratch):
    """The 16-bit tiles of one step that no later step reads: each layer's in turn."""
