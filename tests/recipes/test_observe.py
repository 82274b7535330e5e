"""The moments of real attention modules, against numpy on the projections themselves."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kvant.recipes import observe
from kvant.recipes.importance import WINDOW
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


def directly(model: Any, tokens: Span) -> tuple[list[tuple[Any, Any, Any, Any]], Any]:
    """(module, queries, keys, values) of each layer, (heads, tokens, D), and the last hidden states."""
    seen: list[tuple[Any, Any, Any, Any]] = []

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
        value = module.v_proj(hidden).unflatten(-1, (-1, module.head_dim))[0].transpose(0, 1)
        seen.append((module, found[0], found[1], value.double().numpy()))

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


def one_by_one(module: Any, query: Any, key: Any, value: Any, head: int) -> dict[str, Any]:
    """The sums of one KV head, pair by pair as importance.py words it, in chunks of 64 tokens."""
    window = getattr(module, "sliding_window", None)
    if module.config.model_type == "mistral":
        window = module.config.sliding_window
    if getattr(module, "layer_type", "sliding_attention") == "full_attention":
        window = None
    cap, dim = getattr(module, "attn_logit_softcapping", None), key.shape[-1]
    sums = {f"{side}_{side}": np.zeros((dim, dim)) for side in ("key", "query", "value")}
    sums |= {f"{side}_weight": np.zeros(1) for side in ("key", "query", "value")}
    sums |= {"key": np.zeros(dim), "value": np.zeros(dim)}
    k, v = key[head], value[head]
    for start in range(0, TOKENS, 64):
        stop = min(start + 64, TOKENS)
        at = range(start, stop, observe.STRIDE)
        weight = {"query": np.zeros((2, len(at))), "key": np.zeros(stop), "value": np.zeros(stop)}
        for g, (row, t) in itertools.product(range(2), enumerate(at)):
            seen = [j for j in range(t + 1) if not window or j > t - window]
            scores = k[seen] @ query[2 * head + g, t] * module.scaling
            scores = np.tanh(scores / cap) * cap if cap else scores
            a = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
            out = a @ v[seen]
            for j, share in zip(seen, a, strict=True):
                if SINKS <= j <= t - WINDOW:
                    noise = share**2 * ((v[j] - out) ** 2).sum()
                    weight["query"][g, row] += noise
                    weight["key"][j] += noise
                    weight["value"][j] += share**2
        vectors = {"query": query[2 * head : 2 * head + 2, list(at)], "key": k[:stop], "value": v[:stop]}
        for side, w in weight.items():
            w += observe.LEAVEN * (w.mean() if w.sum() > 0 else 1)
            w[..., : 0 if side == "query" else SINKS] = 0
            x, w = vectors[side].reshape(-1, dim), w.reshape(-1)
            sums[f"{side}_{side}"] += (x * w[:, None]).T @ x
            sums[f"{side}_weight"] += w.sum()
            if side != "query":
                sums[side] += w @ x
    return sums


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
    for number, seen in enumerate(expected):
        layer = moments.layers[number]
        for head in range(2):
            for name, want in one_by_one(*seen, head).items():
                got = getattr(layer, name)[head]
                assert np.abs(got - want).max() < 2e-3 * np.abs(want).max(), (number, head, name)


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
    """As Gemma 3n does: what its queries ask counts for the owner, whose keys they are."""
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
    both = (
        torch.cat([first, second], 2)[0, :, [0, 4, 8, 9, 13, 17]].unflatten(0, (2, 2)).flatten(1, 2).double()
    )
    asked = observe.LEAVEN * both.transpose(1, 2) @ both  # so short a text has nothing but the leaven
    np.testing.assert_allclose(moments.layers[0].query_query, asked, rtol=1e-6)
    made_ = moments.calibration("gm", 0, {})
    assert made_.layers[1] is made_.layers[0]
