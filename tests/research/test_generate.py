"""`model.generate(past_key_values=...)`: greedy, sampled, turn after turn, assisted, beams, copies."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from kvant.errors import EngineError
from kvant.research import KvantCache
from tests.research import tiny

pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning:transformers")


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return tiny.model()


@pytest.fixture(scope="module")
def sliding() -> Any:
    return tiny.model("gemma3")


def generate(model: Any, ids: torch.Tensor, cache: Any, tokens: int = 12, **options: Any) -> torch.Tensor:
    options = {"do_sample": False, "eos_token_id": None} | options
    found: torch.Tensor = model.generate(ids, past_key_values=cache, max_new_tokens=tokens, **options)
    return found


def step_by_step(model: Any, ids: torch.Tensor, tokens: int = 12) -> torch.Tensor:
    """Greedy, every token from a cache that is given the whole text anew."""
    with torch.no_grad(), KvantCache(model, tiny.LOW) as cache:
        for _ in range(tokens):
            cache.reset()
            best = model(ids, past_key_values=cache).logits[:, -1:].argmax(-1)
            ids = torch.cat([ids, best], 1)
    return ids


@pytest.mark.parametrize("family", ["model", "sliding"])
def test_greedy_and_turn_after_turn(family: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(family)
    ids = tiny.text(1, 90)
    with KvantCache(model, tiny.LOW) as cache:
        first = generate(model, ids, cache)
        assert cache.get_seq_length() == 101
        turn = torch.cat([first, tiny.text(1, 30, seed=2)], 1)
        second = generate(model, turn, cache)
    assert torch.equal(first, step_by_step(model, ids))
    assert torch.equal(second, step_by_step(model, turn))


def test_sampled_is_seeded_by_torch_alone(model: Any) -> None:
    ids, found = tiny.text(2, 50), []
    for _ in range(2):
        torch.manual_seed(3)
        with KvantCache(model, tiny.LOW) as cache:
            found.append(generate(model, ids, cache, do_sample=True, temperature=0.8, top_k=20))
    assert torch.equal(*found)
    assert not torch.equal(found[0], step_by_step(model, ids))


def test_a_prompt_in_chunks(sliding: Any) -> None:
    ids = tiny.text(1, 90)
    with KvantCache(sliding, tiny.LOW) as cache:
        found = generate(sliding, ids, cache, prefill_chunk_size=32)
    assert torch.equal(found, step_by_step(sliding, ids))


def test_a_padded_batch_is_its_rows(model: Any) -> None:
    long, short = tiny.text(1, 90), tiny.text(1, 50, seed=4)
    ids = torch.cat([long, torch.cat([torch.full((1, 40), 1), short], 1)])
    with KvantCache(model, tiny.LOW) as cache:
        both = generate(model, ids, cache, attention_mask=(ids != 1).long())
    assert torch.equal(both[:1], step_by_step(model, long))
    assert torch.equal(both[1:, 40:], step_by_step(model, short))


@pytest.mark.parametrize("family", ["model", "sliding"])
def test_beams(family: str, request: pytest.FixtureRequest) -> None:
    """The score of each beam is what its tokens have when they are read anew."""
    model = request.getfixturevalue(family)
    ids, tokens = tiny.text(2, 70), 12
    with torch.no_grad(), KvantCache(model, tiny.LOW) as cache:
        found: Any = generate(
            model, ids, cache, tokens, num_beams=3, num_return_sequences=3,
            return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        cache.reset()
        logits = model(found.sequences, past_key_values=cache).logits[:, -tokens - 1 : -1]
    new = found.sequences[:, -tokens:, None]
    scores = tiny.logprobs(logits).gather(2, new)[..., 0].mean(1)
    assert len(set(map(tuple, found.sequences.tolist()))) == 6
    torch.testing.assert_close(scores, found.sequences_scores, atol=1e-3, rtol=0)


def test_rows_chosen_anew_go_on_as_they_were(sliding: Any) -> None:
    """Page by page and tile by tile: the next logits are those of the rows copied."""
    ids, more = tiny.text(3, 130), tiny.text(1, 9, seed=5).expand(4, -1)
    with torch.no_grad(), KvantCache(sliding, tiny.LOW) as cache, KvantCache(sliding, tiny.LOW) as plain:
        sliding(ids, past_key_values=cache)
        cache.batch_select_indices(torch.tensor([2, 0, 2, 1]))
        got = sliding(more, past_key_values=cache).logits
        sliding(ids[[2, 0, 2, 1]], past_key_values=plain)
        expected = sliding(more, past_key_values=plain).logits
    assert cache.batch_size == 4
    assert tiny.furthest(got, expected) < 1e-3


@pytest.mark.parametrize("family", ["model", "sliding"])
def test_assisted_by_another_model(family: str, request: pytest.FixtureRequest) -> None:
    """Drafts that are refused are taken back, and leave no trace."""
    model = request.getfixturevalue(family)
    assistant = copy.deepcopy(model)
    with torch.no_grad():
        assistant.lm_head.weight += 0.05 * torch.randn_like(assistant.lm_head.weight)
    ids = tiny.text(1, 90)
    with KvantCache(model, tiny.LOW) as cache:
        found = generate(model, ids, cache, 24, assistant_model=assistant)
    assert torch.equal(found, step_by_step(model, ids, 24))


def test_crop(model: Any, sliding: Any) -> None:
    ids = tiny.text(1, 150)
    with torch.no_grad(), KvantCache(model, tiny.LOW) as cache:
        expected = model(ids, past_key_values=cache).logits[:, 140:]
        cache.crop(-10)
        assert cache.get_seq_length() == 140
        assert tiny.furthest(model(ids[:, 140:], past_key_values=cache).logits, expected) < 1e-3
        with pytest.raises(EngineError, match="holds 150 tokens"):
            cache.crop(-151)
        with pytest.raises(EngineError, match="minus the number"):
            cache.crop(100)
        cache.crop(-120)
        with pytest.raises(EngineError, match="16-bit copies of its recent window are gone"):
            model(ids[:, :1], past_key_values=cache)
    with torch.no_grad(), KvantCache(sliding, tiny.LOW) as cache:
        for part in ids.split(50, 1):
            sliding(part, past_key_values=cache)
        with pytest.raises(EngineError, match="activate_past_recording"):
            cache.crop(-90)
        assert cache.get_seq_length() == 150


def test_a_copy_goes_on_by_itself(model: Any) -> None:
    """One prompt, several questions: the idiom of transformers' documentation."""
    ids, questions = tiny.text(1, 90), [tiny.text(1, 12, seed=n) for n in (7, 8)]
    with torch.no_grad(), KvantCache(model, tiny.LOW) as prompt:
        model(ids, past_key_values=prompt)
        for question in questions:
            whole = torch.cat([ids, question], 1)
            with copy.deepcopy(prompt) as mine:
                assert torch.equal(generate(model, whole, mine), step_by_step(model, whole))
        assert prompt.get_seq_length() == 90
