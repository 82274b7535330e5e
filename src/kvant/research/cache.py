"""`KvantCache`: keys and values of a transformers model in packed low-bit pages."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import get_layer_types_and_kwargs

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError
from kvant.kernels import select
from kvant.research import attention
from kvant.research.history import History
from kvant.research.layer import KvantLayer
from kvant.research.recipe import spec_of


class KvantCache(Cache):
    """Give it to the model it was made from: `model.generate(ids, past_key_values=KvantCache(model, spec))`.

    `spec` is a `CacheSpec`, its JSON object, or the folder of a recipe. A cache never sees queries, so
    making one switches the model's attention to "kvant", which attends over the pages; `close()` (or a
    `with` statement) gives the model its own attention back. One object serves one batch of
    conversations, turn after turn; `reset()` empties it. CPU only.
    """

    layers: list[KvantLayer]

    def __init__(
        self, model: PreTrainedModel, spec: CacheSpec | Mapping[str, Any] | str | PathLike[str]
    ) -> None:
        self.model, self.spec = model, spec_of(spec, model)
        self.kernel = select("auto")[0].name
        """The instruction set that the kernels run on."""
        windows = _windows(model)
        numbers = [*self.spec.skip_layers, *(one.layer for one in self.spec.layers)]
        if wrong := [number for number in numbers if number >= len(windows)]:
            raise EngineError(f"the spec names layers {wrong}, the model caches {len(windows)}, from 0")
        shared = bool(getattr(model.config, "num_kv_shared_layers", 0))
        self.history = History(whole=shared)
        modules = frozenset(map(id, model.modules()))
        super().__init__(
            layers=[
                KvantLayer(n, self.spec.of_layer(n), window, self.history, modules)
                for n, window in enumerate(windows)
            ]
        )
        attention.switch(model, self)

    @property
    def nbytes(self) -> int:
        """Bytes allocated for pages and 16-bit copies, free pages included; scratch lives for a call only."""
        return sum(layer.nbytes for layer in self.layers)

    @property
    def effective_bits(self) -> float:
        """Allocated bits for each number that a 16-bit cache would hold now; nan when empty."""
        numbers = sum(layer.numbers for layer in self.layers)
        return 8 * self.nbytes / numbers if numbers else float("nan")

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the newest -n columns, for n < 0; `EngineError` where what they saw is gone already."""
        if tokens_to_remove > 0:
            raise EngineError(f"crop({tokens_to_remove}): give minus the number of tokens to take back")
        if -tokens_to_remove > self.history.columns:
            raise EngineError(f"crop({tokens_to_remove}): the cache holds {self.history.columns} tokens")
        self.history.crop(-tokens_to_remove)
        for layer in self.layers:
            layer.columns = self.history.columns

    def activate_past_recording(self) -> None:
        """From now on sliding windows let nothing go before `crop` is called."""
        self.history.wait()

    def reset(self) -> None:
        """Empty it, for another batch."""
        self.history.reset()
        super().reset()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Row i continues row `beam_idx[i]`: what beam search does."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row becomes `repeats` rows, side by side."""
        self.batch_select_indices(torch.arange(len(self.history.real)).repeat_interleave(repeats))

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows, each as often as it is named."""
        rows = torch.arange(len(self.history.real))[indices].numpy()
        chosen = self.history.select(rows)
        for layer in self.layers:
            if layer.is_initialized:
                layer.select(*chosen[layer.kind])

    @property
    def batch_size(self) -> int:
        """Rows; -1 when empty."""
        return len(self.history.real) or -1

    def close(self) -> None:
        """Give the model its own attention back, once all its caches are closed; this one ends."""
        self.history.closed = True
        attention.restore(self.model, self)

    def __enter__(self) -> KvantCache:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __deepcopy__(self, memo: object) -> KvantCache:
        """A copy that goes on by itself, for many continuations of one prompt; the model is not copied."""
        twin = KvantCache(self.model, self.spec)
        twin.history = self.history.__deepcopy__(memo)
        for mine, theirs in zip(self.layers, twin.layers, strict=True):
            theirs.history = twin.history
            theirs.take(mine)
        return twin

    def __repr__(self) -> str:
        held = f"{self.history.columns} tokens x {len(self.history.real)} rows, {self.nbytes} bytes"
        return f"KvantCache({self.spec.name}, {len(self.layers)} layers, {held}, kernel {self.kernel})"


def _windows(model: PreTrainedModel) -> list[int]:
    """How many tokens a query of each layer sees, 0 = all; `EngineError` for models that are not served."""
    config = model.config.get_text_config(decoder=True)
    if config is not model.config:
        raise EngineError(
            f"{type(model).__name__} is more than a language model: give its text model to KvantCache"
        )
    kinds, details = get_layer_types_and_kwargs(config)
    known = {"full_attention", "sliding_attention"}
    if unknown := sorted(set(kinds) - known):
        raise EngineError(f"{type(model).__name__}: a KvantCache does not serve layers of {unknown}")
    return [detail.get("sliding_window") or 0 for detail in details]
