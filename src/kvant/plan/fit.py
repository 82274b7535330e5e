"""Memory -> blocks -> requests: what one precision makes of a room, and the limits that keep it upright."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvant.plan.contexts import Contexts
from kvant.plan.geometry import Model
from kvant.plan.pages import Blocks, blocks
from kvant.plan.precision import Precision
from kvant.plan.room import Room

MOST_SEQS = 4096
"""More at once than any engine is run with."""


@dataclass(frozen=True)
class Fit:
    """One precision. Bytes are of one rank; `refusal` says why there is nothing to say."""

    precision: Precision
    refusal: str
    bits: float = 0.0
    token_bytes: int = 0
    """Of one token, all layers of a rank, as stored."""
    allocated: float = 0.0
    """The same as vLLM allocates it: what pads pages counts."""
    weights: int = 0
    activations: int = 0
    kept: int = 0
    """16-bit copies of sinks and recent windows."""
    pool: int = 0
    """Bytes of pages."""
    num_blocks: int = 0
    block_bytes: int = 0
    tokens: int = 0
    """vLLM's "KV cache size": tokens of requests as long as the longest."""
    longest_fit: int = 0
    """Requests of the longest length that fit together, whatever happens."""
    requests: int = 0
    """Requests of these contexts that fill the pool."""
    max_num_seqs: int = 0
    """Recommended: those that leave the margin free."""
    watermark: float = 0.0
    """vllm:kv_cache_usage_perc (0 to 1) when the recommended number of whole requests runs."""

    @property
    def fits(self) -> bool:
        return self.max_num_seqs > 0


def fit(model: Model, precision: Precision, contexts: Contexts, room: Room, seqs: int | None = None) -> Fit:
    """`seqs` fixes vLLM's max_num_seqs; without, it is the largest that fits."""
    refusal = precision.refusal(model)
    if refusal:
        return Fit(precision, refusal)
    shape = blocks(model, precision, room.block_size, room.ranks)
    chosen = _largest(model, precision, contexts, room, shape) if seqs is None else seqs
    most = chosen or 1
    pool = room.pool(model, most) - precision.kept_bytes(model, room.ranks, most)
    number = max(pool, 0) // shape.size
    usable = max(number - 1 - shape.in_flight(room.in_flight), 0)
    filled, recommended = (_requests(shape, contexts, room, part * usable) for part in (1.0, 1 - room.margin))
    longest = usable // shape.in_use(contexts.longest)
    recommended = min(recommended, most) if longest else 0
    mean, _ = contexts.over(shape.in_use(length) for length in contexts.lengths)
    count = len(model.layers)
    return Fit(
        precision,
        "",
        bits=precision.bits(model),
        token_bytes=sum(precision.token_bytes(n, x.of_rank(room.ranks), count) for n, x in model.owning),
        allocated=shape.token_bytes,
        weights=room.weights(model),
        activations=room.activations(model, most),
        kept=precision.kept_bytes(model, room.ranks, most),
        pool=pool,
        num_blocks=number,
        block_bytes=shape.size,
        tokens=size_tokens(shape, number, contexts.longest, room.in_flight),
        longest_fit=longest,
        requests=min(filled, most) if seqs is not None else filled,
        max_num_seqs=recommended,
        watermark=recommended * mean / max(number - 1, 1),
    )


def size_tokens(shape: Blocks, number: int, length: int, in_flight: int) -> int:
    """What vLLM logs as the size of its cache, for a max_model_len of `length` (`get_kv_cache_capacity`)."""
    return int(number / shape.admitted(length, in_flight) * length)


def _requests(shape: Blocks, contexts: Contexts, room: Room, room_blocks: float) -> int:
    """The most requests whose blocks, at full length and `risk` deviations above the mean, are there."""
    mean, deviation = contexts.over(shape.in_use(length) for length in contexts.lengths)
    # n mean + z sd sqrt(n) = blocks, solved for sqrt(n).
    spread = room.risk * deviation
    root = (-spread + math.sqrt(spread * spread + 4 * mean * max(room_blocks, 0.0))) / (2 * mean)
    return int(root * root + 1e-9)


def _largest(model: Model, precision: Precision, contexts: Contexts, room: Room, shape: Blocks) -> int:
    """The most sequences that fit with what they themselves take from the pool: copies, logits."""

    def enough(seqs: int) -> bool:
        pool = room.pool(model, seqs) - precision.kept_bytes(model, room.ranks, seqs)
        usable = max(pool, 0) // shape.size - 1 - shape.in_flight(room.in_flight)
        return _requests(shape, contexts, room, (1 - room.margin) * usable) >= seqs

    low, high = 0, MOST_SEQS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if enough(middle) else (low, middle - 1)
    return low
