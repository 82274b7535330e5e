"""Which tokens a simulated query reads in 16 bits, against a loop over single queries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from kvant.quality.simulated import attention
from kvant.quality.simulated.attention import attend
from kvant.quality.simulated.scheme import EXACT, Keep, Layer, Transform, sixteen

TOKENS, HEADS, GROUP, DIM = 90, 2, 2, 16


@pytest.fixture
def vectors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    make = torch.Generator().manual_seed(1)
    return tuple(  # type: ignore[return-value]
        torch.randn((heads, TOKENS, DIM), generator=make) for heads in (HEADS * GROUP, HEADS, HEADS)
    )


@pytest.fixture(autouse=True)
def _several_chunks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As a long text has them."""
    monkeypatch.setattr(attention, "CHUNK", 32)
    attention._parts.cache_clear()
    yield
    attention._parts.cache_clear()


def coarse(key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes so coarse that no mistake of the mask is lost in rounding."""
    return key.round(), (2 * value).round() / 2 + 1


def by_hand(
    layer: Layer,
    vectors: tuple[torch.Tensor, ...],
    sliding: int = 0,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """The definition, one query and head at a time."""
    q, k, v = vectors
    coded_k, coded_v = layer.store(k, v)
    exact_k, exact_v = sixteen(k), sixteen(v)
    out = torch.empty_like(q)
    for head in range(len(q)):
        own = head // GROUP
        for p in range(TOKENS):
            seen = [j for j in range(p + 1) if not sliding or j > p - sliding]

            def near(keep: Keep, j: int, p: int = p) -> bool:
                block = keep.block and j >= p // keep.block * keep.block
                return bool(j < keep.sinks or j > p - keep.window or block)

            keys = torch.stack([(exact_k if near(layer.keys, j) else coded_k)[own, j] for j in seen])
            values = torch.stack([(exact_v if near(layer.values, j) else coded_v)[own, j] for j in seen])
            scores = keys @ q[head, p] * 0.25
            if softcap:
                scores = softcap * torch.tanh(scores / softcap)
            extra = scores if sinks is None else torch.cat((scores, sinks[head : head + 1]))
            out[head, p] = torch.softmax(extra, 0)[: len(seen)] @ values
    return out


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        (Keep(), Keep()),
        (Keep(4, 40), Keep(4, 40)),
        (Keep(window=1), Keep(window=1)),
        (Keep(sinks=5), Keep(sinks=5)),
        (Keep(block=32), Keep(window=32)),
    ],
)
def test_every_query_reads_what_the_definition_says(keys: Keep, values: Keep, vectors) -> None:
    layer = Layer(coarse, keys=keys, values=values)
    torch.testing.assert_close(attend(layer, *vectors, 0.25), by_hand(layer, vectors), atol=1e-5, rtol=1e-5)


def test_sliding_window_softcap_and_learned_sinks(vectors) -> None:
    layer, sinks = Layer(coarse, keys=Keep(4, 16), values=Keep(4, 16)), torch.linspace(-10, 5, HEADS * GROUP)
    found = attend(layer, *vectors, 0.25, sliding=20, softcap=1.5, sinks=sinks)
    expected = by_hand(layer, vectors, sliding=20, softcap=1.5, sinks=sinks)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keep", [Keep(window=TOKENS), Keep(sinks=TOKENS), Keep(block=TOKENS)])
def test_a_window_as_long_as_the_text_is_the_16_bit_cache(keep: Keep, vectors) -> None:
    layer = Layer(coarse, keys=keep, values=keep)
    torch.testing.assert_close(
        attend(layer, *vectors, 0.25), attend(EXACT, *vectors, 0.25), atol=2e-6, rtol=1e-5
    )


def test_a_transform_that_cancels_changes_nothing(vectors) -> None:
    """Scores see (k - mean) M . q N = k.q - mean.q, and the last is the same for every key."""
    make = torch.Generator().manual_seed(2)
    m = torch.randn((HEADS, DIM, DIM), generator=make)
    turn = Transform(
        torch.randn((HEADS, 1, DIM), generator=make), m, torch.linalg.inv(m).mT, m, torch.linalg.inv(m)
    )
    plain = Layer(lambda key, value: (key, value))
    turned = Layer(lambda key, value: (key, value), turn)
    torch.testing.assert_close(
        attend(turned, *vectors, 0.25), attend(plain, *vectors, 0.25), atol=1e-3, rtol=1e-3
    )
