"""Parameters of a model, counted from its config.json: for models whose weights are not here."""

from __future__ import annotations

from kvant.plan.config_json import Fields
from kvant.plan.families import Family, head_dim, layer_count
from kvant.plan.geometry import Experts


def count(fields: Fields, family: Family) -> tuple[int, Experts | None]:
    """All parameters, and the experts among them; gated MLPs, biases of Qwen2's attention."""
    layers, hidden = layer_count(fields), fields.whole("hidden_size")
    tied = fields.flag("tie_word_embeddings", False)
    total = fields.whole("vocab_size") * hidden * (1 if tied else 2) + hidden
    total += layers * (_attention(fields, hidden) + family.norms * hidden)
    experts = _experts(fields, layers, hidden)
    dense = layers
    if experts:
        sparse = _sparse_layers(fields, layers)
        dense -= sparse
        shared = 3 * hidden * _shared_width(fields)
        total += experts.count * experts.parameters + sparse * (experts.count * hidden + shared)
    return total + dense * 3 * hidden * fields.whole("intermediate_size"), experts


def _attention(fields: Fields, hidden: int) -> int:
    heads = fields.whole("num_attention_heads")
    if fields.get("kv_lora_rank") is not None:
        return _latent_attention(fields, hidden, heads)
    dim, kv_heads = head_dim(fields), fields.whole("num_key_value_heads", heads)
    family = str(fields.get("model_type"))
    biases = (heads + 2 * kv_heads) * dim if family.startswith("qwen2") else 0
    norms = 2 * dim if family.startswith(("qwen3", "gemma3")) else 0
    return 2 * hidden * dim * (heads + kv_heads) + biases + norms


def _latent_attention(fields: Fields, hidden: int, heads: int) -> int:
    latent, rope = fields.whole("kv_lora_rank"), fields.whole("qk_rope_head_dim")
    nope, value = fields.whole("qk_nope_head_dim"), fields.whole("v_head_dim")
    query = heads * (nope + rope)
    if fields.get("q_lora_rank") is not None:
        rank = fields.whole("q_lora_rank")
        queries = hidden * rank + rank + rank * query
    else:
        queries = hidden * query
    keys_values = hidden * (latent + rope) + latent + latent * heads * (nope + value)
    return queries + keys_values + heads * value * hidden


def _experts(fields: Fields, layers: int, hidden: int) -> Experts | None:
    names = ("num_local_experts", "n_routed_experts", "num_experts")
    name = next((one for one in names if fields.get(one) is not None), None)
    if name is None:
        return None
    width = (
        "moe_intermediate_size" if fields.get("moe_intermediate_size") is not None else "intermediate_size"
    )
    each = 3 * hidden * fields.whole(width) * _sparse_layers(fields, layers)
    number = fields.whole(name)
    chosen = fields.whole("num_experts_per_tok")
    if chosen > number:
        raise fields.wrong("num_experts_per_tok", f"{chosen} is more than {name}, {number}")
    return Experts(number, chosen, each)


def _sparse_layers(fields: Fields, layers: int) -> int:
    dense = fields.get("mlp_only_layers")
    if isinstance(dense, list):
        return layers - len(dense)
    return layers - min(layers, fields.whole("first_k_dense_replace", 0, least=0))


def _shared_width(fields: Fields) -> int:
    if fields.get("n_shared_experts") is not None:
        return fields.whole("n_shared_experts") * fields.whole("moe_intermediate_size")
    return fields.whole("shared_expert_intermediate_size", 0, least=0)
