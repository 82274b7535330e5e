"""How vLLM turns layers into blocks: the bytes of one block, and how many a request takes.

All layers of a group share a block table. One group where all look back equally far; else as many groups of
equal size as there are kinds of layers, and pages of one size for all, since any block may serve any group
(vllm 0.32, v1/core/kv_cache_utils.py: `get_kv_cache_groups`, `unify_kv_cache_spec_page_size`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from kvant.cache.layout import fitting_block
from kvant.errors import ConfigError
from kvant.plan.geometry import Model
from kvant.plan.precision import Ours, Precision

MUCH_LARGER = 1.5
"""Kinds of layers whose numbers differ by less are padded to the larger number, not cut to the smaller."""


@dataclass(frozen=True)
class Page:
    """What one layer allocates at a time: `block_size` tokens in `size` bytes, padding included."""

    block_size: int
    size: int
    window: int
    token: int
    """Bytes of a token as stored: layers that differ in it share no group."""

    def in_use(self, tokens: int) -> int:
        """Pages that a request of so many tokens holds between two steps."""
        whole = -(-tokens // self.block_size)
        # The window may begin within a page.
        return min(whole, -(-self.window // self.block_size) + 1) if self.window else whole


@dataclass(frozen=True)
class Blocks:
    """The pool of a rank: `groups` are the pages of those who take blocks from it for themselves."""

    groups: tuple[Page, ...]
    size: int
    """Bytes of a block, in all layers of a group."""

    @property
    def token_bytes(self) -> float:
        """Bytes allocated for a token, padding included; blocks are full and windows not yet."""
        return sum(self.size / page.block_size for page in self.groups)

    def in_use(self, tokens: int) -> int:
        """Blocks that a request of so many tokens holds, in all groups, between two steps."""
        return sum(page.in_use(tokens) for page in self.groups)

    def in_flight(self, tokens: int) -> int:
        """Blocks beyond the windows that the tokens of a step hold until they are settled."""
        return sum(-(-tokens // page.block_size) for page in self.groups if page.window)

    def admitted(self, tokens: int, step_tokens: int) -> int:
        """Blocks that vLLM counts a request of so many tokens with, `step_tokens` being in flight."""
        return sum(
            -(-min(page.window - 1 + step_tokens, tokens) // page.block_size) + 1
            if page.window
            else -(-tokens // page.block_size)
            for page in self.groups
        )


def blocks(model: Model, precision: Precision, block_size: int, ranks: int = 1) -> Blocks:
    """The blocks of one rank."""
    pages = _pages(model, precision, block_size, ranks)
    if len({(page.window, page.block_size) for page in pages}) == 1:
        return Blocks((pages[0],), sum(page.size for page in pages))
    largest = max(page.size for page in pages)
    kinds = Counter(_unified(page, largest) for page in pages)
    few, many = min(kinds.values()), max(kinds.values())
    layers = many if many < few * MUCH_LARGER else few
    groups = tuple(page for page, number in kinds.items() for _ in range(-(-number // layers)))
    return Blocks(groups, layers * largest)


def _pages(model: Model, precision: Precision, block_size: int, ranks: int) -> list[Page]:
    count = len(model.layers)
    found = []
    for number, layer in model.owning:
        token = precision.token_bytes(number, layer.of_rank(ranks), count)
        page = Page(block_size, token * block_size, layer.window, token)
        if model.mixed and isinstance(precision, Ours) and precision.in_16_bits(number, count):
            page = _beside(
                precision, page, token, layer.of_rank(ranks).head_dim, layer.of_rank(ranks).kv_heads
            )
        found.append(page)
    return found


def _beside(precision: Ours, page: Page, token: int, head_dim: int, kv_heads: int) -> Page:
    """A 16-bit page no larger than a packed one, as `kvant.engine.backend` makes it."""
    packed = precision.spec.layout(head_dim, kv_heads).page_bytes
    fitting = fitting_block(token, packed)
    if not fitting:
        raise ConfigError(
            f"{precision.name}: a page of {page.block_size} tokens does not hold 16 tokens in 16 bits, which "
            "skipped layers of a model with windows need; give a larger --block-size"
        )
    return replace(page, block_size=fitting, size=packed)


def _unified(page: Page, largest: int) -> Page:
    if largest % page.size == 0:
        return replace(page, block_size=page.block_size * (largest // page.size), size=largest)
    return replace(page, size=largest)
