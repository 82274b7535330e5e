"""What a model answers through the pages: right where 16 bits hold all, the same whatever the schedule."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvant.research import KvantCache
from tests.research import tiny

TOKENS = 150

ROUNDING = 0.02
"""Of log-probabilities in float32, against dense attention over keys and values rounded to bfloat16. Largest
measured: gemma3n 0.007, else 0.0015. A window off by one is 0.28 or more."""
SCHEDULE = 0.02
"""The kernels give the same bits; the model's own products are of other shapes, and now and then a last bit
of theirs becomes another code. Largest measured: 0.001."""


@pytest.fixture(autouse=True)
def _as_users_do() -> Any:
    torch.set_num_threads(1)
    with torch.no_grad():
        yield


def dense(module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, **terms: Any):
    """Causal attention in float32 as a text book has it, over keys and values rounded to bfloat16."""
    heads, columns = query.shape[1], query.shape[2]
    key, value = (x.bfloat16().float().repeat_interleave(heads // x.shape[1], dim=1) for x in (key, value))
    scores = query @ key.transpose(2, 3) * terms["scaling"]
    if cap := terms.get("softcap"):
        scores = cap * torch.tanh(scores / cap)
    away = torch.arange(columns)[:, None] - torch.arange(columns)
    scores = scores.masked_fill((away < 0) | (away >= (terms.get("sliding_window") or columns)), -torch.inf)
    if (sinks := terms.get("s_aux")) is not None:
        scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(1, -1, columns, 1)], -1)
    weights = scores.softmax(-1)[..., :columns]
    return (weights @ value).transpose(1, 2).contiguous(), None


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_where_all_is_held_in_16_bits(family: str) -> None:
    from transformers import AttentionInterface

    AttentionInterface.register("dense_of_test", dense)
    model, ids = tiny.model(family), tiny.text(1, TOKENS)
    own = model.config._attn_implementation
    model.set_attn_implementation("dense_of_test")
    expected = model(ids).logits
    model.set_attn_implementation(own)
    with KvantCache(model, tiny.WHOLE) as cache:
        got = model(ids, past_key_values=cache).logits
    assert tiny.furthest(got, expected) < ROUNDING


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_pieces_and_padding_change_nothing(family: str) -> None:
    """One text at once; in pieces; and in pieces, padded on the left, beside another text."""
    model, ids = tiny.model(family), tiny.text(1, TOKENS)
    other, pad = tiny.text(1, TOKENS + 40, seed=1), torch.full((1, 40), 1)
    both = torch.cat([torch.cat([pad, ids], 1), other])
    mask = torch.ones_like(both)
    mask[0, :40] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with (
        KvantCache(model, tiny.LOW) as whole,
        KvantCache(model, tiny.LOW) as pieces,
        KvantCache(model, tiny.LOW) as mates,
    ):
        expected = model(ids, past_key_values=whole).logits
        got = [model(piece, past_key_values=pieces).logits for piece in ids.split([70, 1, 1, 30, 48], 1)]
        beside, done = [], 0
        for count in (30, 60, 1, 1, 98):  # the first is padding alone in row 0
            part = slice(done, done + count)
            done += count
            beside.append(
                model(
                    both[:, part], attention_mask=mask[:, :done], position_ids=positions[:, part],
                    past_key_values=mates,
                ).logits
            )  # fmt: skip
    assert tiny.furthest(torch.cat(got, 1), expected) < SCHEDULE
    assert tiny.furthest(torch.cat(beside, 1)[:1, 40:], expected) < SCHEDULE


def test_padding_on_the_right() -> None:
    """A row goes on after it: what was padding stays out of sight, and out of the pages."""
    model, ids, more = tiny.model("gemma3"), tiny.text(2, 100), tiny.text(2, 9, seed=1)
    mask = torch.ones(2, 109, dtype=torch.long)
    mask[1, 70:100] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with KvantCache(model, tiny.LOW) as padded, KvantCache(model, tiny.LOW) as alone:
        model(ids, attention_mask=mask[:, :100], position_ids=positions[:, :100], past_key_values=padded)
        got = model(more, attention_mask=mask, position_ids=positions[:, 100:], past_key_values=padded).logits
        model(ids[1:, :70], past_key_values=alone)
        expected = model(more[1:], past_key_values=alone).logits
    assert tiny.furthest(got[1:], expected) < SCHEDULE


def test_few_bits_do_change_the_numbers() -> None:
    """So that the tests above compare something."""
    model, ids = tiny.model(), tiny.text(1, TOKENS)
    expected = model(ids).logits
    with KvantCache(model, tiny.LOW) as cache:
        assert tiny.furthest(model(ids, past_key_values=cache).logits, expected) > 0.5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_models_of_16_bits(dtype: torch.dtype) -> None:
    """Their own rounding parts the logits of two attentions; ours is no further from float32 than theirs."""
    exact = tiny.model()
    model, ids = tiny.model(dtype=dtype), tiny.text(1, TOKENS)
    model.load_state_dict(exact.state_dict())
    true = tiny.logprobs(exact(ids).logits)
    theirs = (tiny.logprobs(model(ids).logits) - true).abs().mean()
    with KvantCache(model, tiny.WHOLE) as cache:
        ours = (tiny.logprobs(model(ids, past_key_values=cache).logits) - true).abs().mean()
    assert ours < 1.5 * theirs


def test_layers_of_their_own() -> None:
    """A layer that is skipped holds 16 bits, and one may have other formats than the rest."""
    model, ids = tiny.model(), tiny.text(1, TOKENS)
    spec = tiny.LOW | {"skip_layers": [0], "layers": {"2": {"key": "int8", "value": "int4"}}}
    with KvantCache(model, spec) as cache:
        model(ids, past_key_values=cache)
        assert [layer.spec.name for layer in cache.layers] == [
            "bf16/bf16",
            "codebook4/codebook2",
            "int8/int4",
        ]
        first, second, third = (layer.pages.nbytes for layer in cache.layers)
    assert second < third < first
