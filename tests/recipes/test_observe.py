"""The moments of real attention modules, against numpy on the projections themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvant.recipes import observe
from kvant.recipes.moments import Moments
from kvant.recipes.observe import Observer
from kvant.recipes.plan import SINKS, Span
from tests.recipes import made

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TOKENS, FIRST = 150, 37


def build(family: str) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(made.config(family), attn_implementation="eager").eval()


def span() -> Span:
    return Span(FIRST, np.random.default_rng(0).integers(1, 256, TOKENS))


def directly(model: Any, tokens: Span) -> tuple[list[tuple[Any, Any]], Any]:
    """(queries, keys) of each layer, (heads, tokens, D), and the last hidden states; one eager pass."""
    seen: list[tuple[Any, Any]] = []

    def watch(module: Any, args: Any, kwargs: Any) -> None:
        hidden = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]
        cos, sin = (x[0].double().numpy() for x in kwargs["position_embeddings"])
        found = []
        for side in "qk":
            x = getattr(module, f"{side}_proj")(hidden).unflatten(-1, (-1, module.head_dim))
            norm = getattr(module, f"{side}_norm", None)
            x = (norm(x) if norm is not None else x)[0].transpose(0, 1).double().numpy()
            left, right = np.split(x, 2, axis=-1)
            found.append(x * cos + np.concatenate([-right, left], -1) * sin)
        seen.append((found[0], found[1]))

    for layer in model.base_model.layers:
        layer.self_attn.register_forward_pre_hook(watch, with_kwargs=True)
    with torch.no_grad():
        out = model.base_model(
            input_ids=torch.from_numpy(tokens.tokens)[None],
            position_ids=torch.from_numpy(tokens.positions)[None],
        )
    for layer in model.base_model.layers:
        layer.self_attn._forward_pre_hooks.clear()
        layer.self_attn._forward_pre_hooks_with_kwargs.clear()
    return seen, out.last_hidden_state


@pytest.mark.parametrize("family", made.FAMILIES)
def test_moments_are_those_of_the_rotated_projections(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "CHUNK", 64)
    model, tokens = build(family), span()
    expected, hidden = directly(model, tokens)
    last: list[Any] = []
    handle = model.base_model.register_forward_hook(lambda m, a, out: last.append(out.last_hidden_state))
    observer = Observer(model, Moments({}))
    observer.read(tokens)
    handle.remove()

    # Chunked, with a cache, windows and caps: the model computes what it computes by itself.
    np.testing.assert_allclose(torch.cat(last, 1).numpy(), hidden.numpy(), atol=2e-4)
    moments = observer.moments
    assert (moments.tokens, moments.done) == (TOKENS - SINKS, 1)
    assert moments.owners == {n: n for n in range(3)}
    for number, (query, key) in enumerate(expected):
        layer = moments.layers[number]
        q, k = query[:, SINKS:], key[:, SINKS:]
        np.testing.assert_allclose(layer.key, k.sum(1), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(layer.key_key, np.einsum("htd,hte->hde", k, k), rtol=1e-3, atol=1e-2)
        asked = np.einsum("htd,hte->hde", q, q).reshape(2, 2, 16, 16).sum(1)
        np.testing.assert_allclose(layer.query_query, asked, rtol=1e-3, atol=1e-2)


def test_the_layers_of_gemma_3n_that_share_a_cache_have_its_transforms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers import AutoModelForCausalLM

    monkeypatch.setattr(observe, "CHUNK", 64)
    model = AutoModelForCausalLM.from_config(made.config("Gemma3n"), attn_implementation="eager").eval()
    tokens, last = span(), []
    with torch.no_grad():
        ids, places = (torch.from_numpy(x)[None] for x in (tokens.tokens, tokens.positions))
        hidden = model.base_model(input_ids=ids, position_ids=places).last_hidden_state
    model.base_model.register_forward_hook(lambda m, a, out: last.append(out.last_hidden_state))
    observer = Observer(model, Moments({}))
    observer.read(tokens)
    np.testing.assert_allclose(torch.cat(last, 1).numpy(), hidden.numpy(), atol=2e-4)
    assert observer.moments.owners == {0: 0, 1: 1, 2: 0, 3: 1}
    calibration = observer.moments.calibration("gm", 0, {})
    assert sorted(calibration.layers) == [0, 1, 2, 3]
    assert calibration.layers[2] is calibration.layers[0]


def test_a_layer_that_reads_another_ones_cache_asks_its_keys() -> None:
    """As Gemma 3n does: its queries count for the owner, its keys are the owner's and count once."""
    observer = Observer(build("Llama"), Moments({}))
    owner, reader = (torch.nn.Module() for _ in range(2))
    owner.layer_idx, reader.layer_idx, reader.kv_shared_layer_index = 0, 1, 0
    rng = torch.Generator().manual_seed(0)
    first, second = (torch.randn(1, 4, 9, 16, generator=rng) for _ in range(2))
    key = torch.randn(1, 2, 9, 16, generator=rng)
    owner.num_key_value_groups = reader.num_key_value_groups = 2
    observer._attend(owner, first, key, key, None)
    observer._attend(reader, second, key, key, None)
    moments = observer.moments
    assert moments.owners == {0: 0, 1: 0}
    np.testing.assert_allclose(moments.layers[0].key, key[0].sum(1), rtol=1e-5)
    both = torch.cat([first, second], 2)[0].unflatten(0, (2, 2)).flatten(1, 2).double()
    np.testing.assert_allclose(moments.layers[0].query_query, both.transpose(1, 2) @ both, rtol=1e-6)
    moments.tokens = 9
    made_ = moments.calibration("gm", 0, {})
    assert made_.layers[1] is made_.layers[0]
