"""What a layer of the cache hands the model instead of 16-bit keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from kvant.errors import EngineError

if TYPE_CHECKING:
    import torch

    from kvant.research.layer import KvantLayer


class Ticket:
    """Goes through the model to its attention function, where it is exchanged for attention over the pages.

    It carries one pass's new keys or values (rows, KV heads, columns, D). Whatever else touches it, the
    attention of another implementation first of all, gets an error and never a number.
    """

    __slots__ = ("begun", "layer", "states")

    def __init__(self, layer: KvantLayer, states: torch.Tensor) -> None:
        self.layer, self.states, self.begun = layer, states, False

    def to(self, *device: object) -> Ticket:
        """Models that share keys and values between layers say so; there is one device."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()

    @classmethod
    def __torch_function__(cls, *call: object) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise EngineError(
        "this model's attention does not run over the pages of the KvantCache it was given (its attention "
        "implementation is not 'kvant'): make the cache from this very model, KvantCache(model, spec)"
    )
