"""README.md of a recipe: what it is, what it costs, how to serve it."""

from __future__ import annotations

from kvant.cache.spec import CacheSpec
from kvant.recipes.recipe import Facts


def card(facts: Facts, spec: CacheSpec, summary: str) -> str:
    """Markdown; the numbers are those of recipe.yaml, the bits those of the page layout."""
    model, cache, made = facts.model, facts.cache, facts.calibration
    each = [spec.of_layer(n).layout(model.head_dim, model.kv_heads) for n in range(model.layers)]
    bits = sum(layout.effective_bits for layout in each) / len(each)
    own = [f"{number} `{one.key}/{one.value}`" for number, one in cache.layers.items()]
    rows = [
        ("model", f"{model.name}, digest `{model.digest}`"),
        ("shape", f"{model.layers} layers, {model.kv_heads} KV heads of {model.head_dim}"),
        ("keys, values", f"`{cache.key}`, `{cache.value}`"),
        *([("but in layers", ", ".join(own))] if own else []),
        ("bits per element", f"{bits:.3f} in pages, scales counted; sinks and window come on top"),
        ("kept in 16 bits", f"the first {cache.sinks} and the last {cache.window} tokens"),
    ]
    if made:
        rows += [
            ("key transform", f"{made.transform}, `{made.file}`, SHA-256 `{made.sha256}`"),
            ("calibrated on", f"{made.tokens:,} tokens: {', '.join(made.corpora)}"),
            ("for positions", f"below {made.max_position:,}; later ones are served less faithfully"),
        ]
    origin = facts.provenance
    rows.append(("made by", f"Kvant {origin.kvant} on {origin.date}: `{origin.command}`"))
    text = f"# {facts.name} for {model.name}\n\nA KV cache recipe of Kvant: {summary}.\n\n| | |\n|---|---|\n"
    text += "".join(f"| {name} | {value} |\n" for name, value in rows)
    text += (
        "\nIt is refused for any other model. To serve it:\n\n"
        "```console\nkvant serve MODEL --recipe THIS_FOLDER\n"
        "vllm serve MODEL --attention-backend CUSTOM --block-size 64 \\\n"
        '    --additional-config \'{"kvant": {"recipe": "THIS_FOLDER"}}\'\n```\n'
    )
    if facts.fidelity:
        names = list(facts.fidelity[0])
        text += "\n## Measured fidelity\n\n| " + " | ".join(names) + " |\n|" + "---|" * len(names) + "\n"
        text += "".join(
            "| " + " | ".join(str(row.get(name, "")) for name in names) + " |\n" for row in facts.fidelity
        )
    return text
