"""What a KvantCache does not serve, it refuses by name: never another attention, never 16 bits in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvant.errors import ConfigError, EngineError
from kvant.research import KvantCache
from tests.research import tiny


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return tiny.model()


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_model_with_another_attention(model: Any, attention: str) -> None:
    other = tiny.model(attn_implementation=attention)
    with KvantCache(model, tiny.LOW) as cache, pytest.raises(EngineError, match="not 'kvant'"):
        other(tiny.text(1, 20), past_key_values=cache)


def test_another_model_with_ours(model: Any) -> None:
    other = tiny.model()
    with (
        KvantCache(model, tiny.LOW) as cache,
        KvantCache(other, tiny.LOW),
        torch.no_grad(),
        pytest.raises(EngineError, match="made for another model"),
    ):
        other(tiny.text(1, 20), past_key_values=cache)


def test_ours_without_a_cache(model: Any) -> None:
    with KvantCache(model, tiny.LOW), pytest.raises(EngineError, match="needs a KvantCache"):
        model(tiny.text(1, 20), use_cache=False)
    with KvantCache(model, tiny.LOW), pytest.raises(EngineError, match="needs a KvantCache"):
        model.generate(tiny.text(1, 20), max_new_tokens=2)


def test_the_model_gets_its_attention_back_with_its_last_cache(
    model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert model.config._attn_implementation == "sdpa"
    with KvantCache(model, tiny.LOW) as outer:
        assert "attention is 'kvant' instead of 'sdpa'" in caplog.text
        with KvantCache(model, tiny.LOW):
            pass
        assert model.config._attn_implementation == "kvant"
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(EngineError, match="closed"):
        model(tiny.text(1, 5), past_key_values=outer)


def test_gradients_and_attention_weights(model: Any) -> None:
    with KvantCache(model, tiny.LOW) as cache:
        with pytest.raises(EngineError, match="gradients"):
            model(tiny.text(1, 5), past_key_values=cache)
        cache.reset()
        with torch.no_grad(), pytest.raises(EngineError, match="output_attentions"):
            model(tiny.text(1, 5), past_key_values=cache, output_attentions=True)


def test_a_pass_that_was_interrupted(model: Any) -> None:
    """Some layers hold its tokens and others do not: nothing goes on from there."""
    ids = tiny.text(1, 20)
    with torch.no_grad(), KvantCache(model, tiny.LOW) as cache:
        expected = model(ids, past_key_values=cache).logits
        stop = model.model.layers[1].register_forward_pre_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(ids[:, :1], past_key_values=cache)
        stop.remove()
        with pytest.raises(EngineError, match="interrupted"):
            model(ids[:, :1], past_key_values=cache)
        cache.reset()
        assert torch.equal(model(ids, past_key_values=cache).logits, expected)


def test_masks_that_do_not_fit_what_is_held(model: Any) -> None:
    ids = tiny.text(2, 20)
    with torch.no_grad(), KvantCache(model, tiny.LOW) as cache:
        mask = torch.ones_like(ids)
        mask[1, :5] = 0
        model(ids, attention_mask=mask, past_key_values=cache)
        with pytest.raises(EngineError, match="differs from earlier steps"):
            model(ids[:, :1], past_key_values=cache)
        with pytest.raises(EngineError, match="batch of 2, not of 1"):
            model(ids[:1, :1], past_key_values=cache)
        with pytest.raises(EngineError, match=r"expected \(2, 21\)"):
            model(ids[:, :1], attention_mask=mask[:, :1], past_key_values=cache)
        with pytest.raises(EngineError, match=r"got \(2, 1, 1, 21\)"):
            model(ids[:, :1], attention_mask=torch.zeros(2, 1, 1, 21), past_key_values=cache)


def test_specs_that_do_not_fit_the_model(model: Any) -> None:
    with pytest.raises(EngineError, match=r"layers \[7\]"):
        KvantCache(model, {"skip_layers": [7]})
    with pytest.raises(ConfigError, match="int88"):
        KvantCache(model, {"key": "int88"})
    with pytest.raises(ConfigError, match="made for rotated vectors"):
        KvantCache(model, {"key": "codebook4", "rotate": False})
    assert model.config._attn_implementation == "sdpa"


def test_more_than_a_language_model() -> None:
    from transformers import AutoModelForImageTextToText, Gemma3Config

    text = tiny.model("gemma3").config.to_dict()
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    both = Gemma3Config(text_config=text, vision_config=vision)
    with pytest.raises(EngineError, match="give its text model"):
        KvantCache(AutoModelForImageTextToText.from_config(both), tiny.LOW)


def test_layers_that_are_not_served() -> None:
    chunked = tiny.model(
        layer_types=["full_attention", "chunked_attention", "full_attention"], attention_chunk_size=8
    )
    with pytest.raises(EngineError, match="chunked_attention"):
        KvantCache(chunked, tiny.LOW)
