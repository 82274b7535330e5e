"""A transformers model whose attention reads a simulated cache (Llama, Qwen, Gemma, Mistral families)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from kvant.errors import ModelError
from kvant.models import weights
from kvant.quality.simulated.attention import attend
from kvant.quality.simulated.scheme import CONTROL, Scheme, Shape

NAME = "kvant_simulated"
Observer = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Called with the layer, its query (Hq, T, D), key, value (H, T, D) and output (Hq, T, D)."""


@dataclass
class Run:
    """What one forward pass carries to every layer, and which layers it reached."""

    scheme: Scheme
    observe: Observer | None = None
    reached: list[int] = field(default_factory=list)


class Simulator:
    """A model folder, loaded once; `ModelError` for architectures it cannot do faithfully."""

    def __init__(self, folder: Path | str, dtype: str = "bfloat16") -> None:
        from transformers import AttentionInterface, AutoModelForCausalLM

        AttentionInterface.register(NAME, _attention)
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation=NAME, **weights.reading(folder)
        ).eval()
        self.config = config = self.model.config.get_text_config()
        for name in ("logit_scale", "logits_scaling"):
            if getattr(config, name, None) not in (None, 1, 1.0):
                raise ModelError(f"{folder}: {name} of its logits is not simulated; use --path engine")
        self.folder = folder
        heads = config.num_attention_heads
        self.shape = Shape(
            config.num_hidden_layers,
            heads,
            getattr(config, "num_key_value_heads", None) or heads,
            getattr(config, "head_dim", None) or config.hidden_size // heads,
        )
        self._softcap = getattr(config, "final_logit_softcapping", None)
        self._head = self.model.get_output_embeddings().weight.detach().float()

    def states(
        self, ids: list[int], scheme: Scheme = CONTROL, observe: Observer | None = None
    ) -> torch.Tensor:
        """The last hidden state of every position (tokens, hidden), with this cache."""
        return self._forward(ids, Run(scheme, observe), 0)

    def inputs(self, ids: list[int]) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """The 16-bit model's last hidden states, and what went into each of its layers."""
        found: list[torch.Tensor] = []
        hooks = [
            layer.register_forward_pre_hook(lambda module, args: found.append(args[0]))
            for layer in self.model.base_model.layers
        ]
        try:
            return self.states(ids), found
        finally:
            for hook in hooks:
                hook.remove()

    def resume(self, ids: list[int], scheme: Scheme, layer: int, state: torch.Tensor) -> torch.Tensor:
        """`states`, but with `state` as the input of this layer: those before it are not run."""
        layers = self.model.base_model.layers
        self.model.base_model.layers = torch.nn.ModuleList(
            [*(_Skipped(state) for _ in range(layer)), *layers[layer:]]
        )
        try:
            return self._forward(ids, Run(scheme), layer)
        finally:
            self.model.base_model.layers = layers

    def _forward(self, ids: list[int], run: Run, first: int) -> torch.Tensor:
        with torch.inference_mode():
            output: torch.Tensor = self.model.base_model(
                input_ids=torch.tensor(ids)[None], use_cache=False, kvant_run=run
            ).last_hidden_state[0]
        if run.reached != list(range(first, self.shape.layers)):
            raise ModelError(
                f"{type(self.model).__name__}: its attention does not go through the simulated cache "
                f"(layers reached: {run.reached}); use --path engine"
            )
        return output

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Float32 logits (n, vocabulary) of hidden states (n, hidden)."""
        found = states.float() @ self._head.T
        return torch.tanh(found / self._softcap) * self._softcap if self._softcap else found


class _Skipped(torch.nn.Module):
    """In the place of a layer that is not run."""

    def __init__(self, state: torch.Tensor) -> None:
        super().__init__()
        self.state = state

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        return self.state


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    kvant_run: Run | None = None,
    **other: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention function: (1, heads, T, D) each, to (1, T, heads, D)."""
    if kvant_run is None or len(query) != 1 or query.shape[2] != key.shape[2]:
        raise ModelError("a simulated cache takes one whole sequence at a time, through Simulator.states")
    number = module.layer_idx
    kvant_run.reached.append(number)
    shared = getattr(module, "kv_shared_layer_index", None)  # reads that layer's pages
    out = attend(
        kvant_run.scheme.layer(number if shared is None else shared),
        query[0],
        key[0],
        value[0],
        query.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding=sliding_window or 0,
        softcap=softcap or 0.0,
        sinks=s_aux,
    )
    if kvant_run.observe is not None:
        kvant_run.observe(number, query[0].float(), key[0].float(), value[0].float(), out)
    return out.to(query.dtype).transpose(0, 1)[None], None
