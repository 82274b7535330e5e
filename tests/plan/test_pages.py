"""Blocks as vLLM makes them, computed by hand; tests/plan/test_engine.py asks a running one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvant.errors import ConfigError
from kvant.plan.pages import blocks
from kvant.plan.precision import Ours, parse
from tests.plan.models import GEMMA2_2B, GEMMA3_27B, LLAMA_8B, LLAMA_70B, MISTRAL_7B, QWEN3_4B, planned

BF16 = parse([])[0]


def named(name, **changes):
    one = parse([name])[-1]
    return replace(one, spec=replace(one.spec, **changes)) if isinstance(one, Ours) and changes else one


def test_layers_alike_share_one_table(tmp_path):
    pool = blocks(planned(tmp_path, LLAMA_8B), BF16, 16)
    assert (pool.size, len(pool.groups), pool.token_bytes) == (16 * 131_072, 1, 131_072)
    assert [pool.in_use(n) for n in (1, 16, 17, 8192)] == [1, 1, 2, 512]
    assert pool.in_flight(2048) == 0


def test_a_rank_has_its_share_of_the_heads(tmp_path):
    model = planned(tmp_path, LLAMA_70B)
    assert blocks(model, BF16, 16, 8).size == blocks(model, BF16, 16).size // 8
    assert blocks(model, BF16, 16, 16).size == blocks(model, BF16, 16, 8).size


def test_layers_of_different_bytes_add_up_where_all_see_everything(tmp_path):
    pool = blocks(planned(tmp_path, QWEN3_4B), named("turboquant_3bit_nc"), 16)
    assert (len(pool.groups), pool.size) == (1, 16 * 8 * (32 * 102 + 4 * 512))


def test_windows_alone_are_one_group_too(tmp_path):
    pool = blocks(planned(tmp_path, MISTRAL_7B), BF16, 16)
    assert (len(pool.groups), pool.size) == (1, 16 * 131_072)
    assert [pool.in_use(n) for n in (4096, 5000, 100_000)] == [256, 257, 257]


def test_gemma_is_seven_groups_of_ten_layers(tmp_path):
    """10 full layers and 52 local ones, cut into groups of 10, the last two of which are padded."""
    pool = blocks(planned(tmp_path, GEMMA3_27B), BF16, 16)
    assert (len(pool.groups), pool.size) == (7, 10 * 16 * 16 * 128 * 4)
    # 32,768 tokens: 2,048 blocks for the full layers, 65 for each group of windows of 1,024.
    assert pool.in_use(32_768) == 2048 + 6 * 65
    # vLLM also counts the tokens of a step: 1,023 + 2,048 are 192 blocks, and one where the window begins.
    assert pool.admitted(32_768, 2048) == 2048 + 6 * 193
    assert pool.in_flight(2048) == 6 * 128
    assert pool.token_bytes == 70 * 16 * 128 * 4  # 8 layers of padding


def test_kinds_nearly_as_many_are_padded_not_cut(tmp_path):
    """13 and 13 layers of Gemma 2; with 27 layers 14 and 13, padded to 14."""
    assert len(blocks(planned(tmp_path, GEMMA2_2B), BF16, 16).groups) == 2
    pool = blocks(planned(tmp_path, GEMMA2_2B, num_hidden_layers=27), BF16, 16)
    assert (len(pool.groups), pool.size) == (2, 14 * 16 * 4 * 256 * 4)


def test_skipped_layers_of_a_mixed_model_lie_in_packed_pages(tmp_path):
    """A packed page of 64 tokens x 4 heads x 516 bytes holds 32 tokens of 1,024 bytes and 4 heads."""
    pool = blocks(planned(tmp_path, GEMMA2_2B), named("int8", skip_layers=(1, 3)), 64)
    packed = 64 * 4 * 516
    assert {(page.size, page.block_size, page.window) for page in pool.groups} == {
        (packed, 64, 4096), (packed, 64, 0), (packed, 32, 0)
    }  # fmt: skip
    with pytest.raises(ConfigError, match="give a larger --block-size"):
        blocks(planned(tmp_path, GEMMA2_2B), named("max", skip_layers=(1,), block_size=16), 16)


def test_layers_of_their_own_width_are_padded_in_a_mixed_model(tmp_path):
    from kvant.cache.spec import LayerFormats
    from kvant.formats import KEY_FORMATS

    wide = LayerFormats(0, KEY_FORMATS["int8"], KEY_FORMATS["int8"])
    pool = blocks(planned(tmp_path, GEMMA2_2B), named("max", layers=(wide,)), 64)
    page = 64 * 4 * 516
    assert {one.size for one in pool.groups} == {page}
    # One layer is unlike all others, so groups are of one layer each: 26 tables, blocks of one page.
    assert (len(pool.groups), pool.size) == (26, page)
