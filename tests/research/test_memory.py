"""Bytes: what is counted is what is allocated, and a sliding window holds no more than it shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvant.research import KvantCache
from tests.research import tiny


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return tiny.model("gemma3")


def feed(model: Any, cache: KvantCache, ids: torch.Tensor) -> None:
    with torch.no_grad():
        model(ids, past_key_values=cache, logits_to_keep=1)


def test_bits_are_those_of_the_format_and_what_surrounds_it(model: Any) -> None:
    """No window: the layout's bits, and the rest of the last block."""
    plain = tiny.model()
    with KvantCache(plain, {"key": "int4", "value": "int4", "block_size": 16}) as cache:
        assert cache.nbytes == 0
        feed(plain, cache, tiny.text(2, 1000))
        layout = cache.layers[0].paged.layout
        assert layout.effective_bits <= cache.effective_bits <= layout.effective_bits * 1.01
        assert cache.nbytes == sum(layer.pages.untyped_storage().nbytes() for layer in cache.layers)
        cache.reset()
        assert cache.nbytes == 0


def test_no_tensor_of_16_bits_outlives_a_step(model: Any) -> None:
    """But for the copies, everything a layer holds is packed."""
    with KvantCache(model, tiny.LOW) as cache:
        feed(model, cache, tiny.text(1, 100))
        for layer in cache.layers:
            held = {name for name, it in vars(layer).items() if isinstance(it, torch.Tensor)}
            assert held == {"pages", "copies"}
            assert layer.keys is None
            assert layer.values is None


def test_a_sliding_window_uses_its_pages_again(model: Any) -> None:
    """However long the text, however it comes."""
    sizes = []
    for columns in (1100, 1900):
        with KvantCache(model, tiny.LOW) as cache:
            feed(model, cache, tiny.text(1, columns))
            sizes.append([layer.pages.nbytes for layer in cache.layers])
    (short, short_full, _), (long, long_full, _) = sizes
    assert long == short
    assert long_full > 1.5 * short_full
