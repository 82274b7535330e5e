"""Texts through the engine teacher-forced: the last hidden state of every position, and the way to logits.

The same engine also writes texts of its own, for whoever compares those.

One engine of one configuration, in this process; whoever wants several runs each in a process of its own,
with `ENVIRONMENT` set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kvant.cache.spec import CacheSpec
from kvant.errors import EngineError

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # Threads that wait must not take the cores from those that work.
    "OMP_WAIT_POLICY": "passive",
}

STEP = 512
"""Tokens of a step: a text goes through several, as a long prompt does when it is served."""


class Forced:
    """An engine with this cache; `spec` None is vLLM's own. `EngineError` if anything else runs."""

    def __init__(
        self,
        model: Path | str,
        spec: CacheSpec | None,
        tokens: int,
        dtype: str,
        sequences: int = 1,
        step: int = STEP,
    ) -> None:
        from vllm import LLM

        ours: dict[str, Any] = {}
        if spec is not None:
            ours = {"attention_backend": "CUSTOM", "additional_config": {"kvant": spec.to_json()}}
            ours["block_size"] = spec.block_size
        self.llm = LLM(
            model=str(model),
            dtype=dtype,
            max_model_len=tokens + 1,
            max_num_batched_tokens=step,
            max_num_seqs=sequences,
            enforce_eager=True,
            enable_prefix_caching=False,
            skip_tokenizer_init=True,
            worker_extension_cls="kvant.engine.report.WorkerReport",
            **ours,
        )
        (report,) = self.llm.collective_rpc("kvant_report")
        if spec is not None:
            check(report, spec)
        self._layers: list[dict[str, Any]] = report["layers"]
        (self.model,) = self.llm.apply_model(lambda model: model)

    def states(self, ids: list[int]) -> torch.Tensor:
        """Hidden states (tokens, hidden) before the head, in the model's own type."""
        from vllm import SamplingParams

        steps: list[torch.Tensor] = []
        hook = self.model.register_forward_hook(lambda module, args, output: steps.append(output.clone()))
        try:
            self.llm.generate(
                {"prompt_token_ids": ids}, SamplingParams(max_tokens=1, detokenize=False), use_tqdm=False
            )
        finally:
            hook.remove()
        found = torch.cat(steps)
        if len(found) != len(ids):
            raise EngineError(
                f"{len(ids)} tokens gave {len(found)} hidden states: this model cannot be scored"
            )
        return found

    def write(self, requests: Sequence[tuple[list[int], float, int]], context: int) -> list[list[int]]:
        """What the model writes after each prompt (ids, temperature, seed), up to `context` tokens in all.

        The end-of-text token is a token like any other: every text has its full length, so that all
        configurations run the same batches and their texts can be compared. The prompts together must fit
        into a step: vLLM 0.32 on a CPU dies of a seeded request whose prompt is cut ("CPU Generator does
        not use offset").
        """
        from vllm import SamplingParams

        prompts = [{"prompt_token_ids": ids} for ids, _, _ in requests]
        sampling = [
            SamplingParams(
                temperature=temperature,
                seed=seed,
                max_tokens=context - len(ids),
                ignore_eos=True,
                detokenize=False,
            )
            for ids, temperature, seed in requests
        ]
        found = self.llm.generate(prompts, sampling, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in found]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Float32 logits (n, vocabulary): the model's own would be rounded to its type."""
        processor, head = self.model.logits_processor, self._head()
        found = states.float() @ head[: processor.org_vocab_size].float().T
        if processor.soft_cap is not None:
            found = torch.tanh(found / processor.soft_cap) * processor.soft_cap
        return found * processor.scale

    def facts(self) -> dict[str, Any]:
        """What ran: kernel, number of layers, and the shape of a cache's entry."""
        first = self._layers[0]
        config = self.llm.llm_engine.vllm_config.model_config
        return {
            "kernel": first.get("kernel", "vLLM's own"),
            "weights": linear(self.model),
            "layers": len(self._layers),
            "head_dim": config.get_head_size(),
            "kv_heads": config.get_total_num_kv_heads(),
        }

    def head_digest(self) -> str:
        """SHA-256 of the weights that turn states into logits."""
        return hashlib.sha256(self._head().contiguous().view(torch.uint8).numpy()).hexdigest()

    def _head(self) -> torch.Tensor:
        head = getattr(self.model, "lm_head", None)
        weight: torch.Tensor = (self.model.model.embed_tokens if head is None else head).weight
        return weight


def linear(model: torch.nn.Module) -> str:
    """What multiplies with the weights of the linear layers; "" for vLLM's own in the model's type."""
    found = set()
    for module in model.modules():
        kernel = getattr(getattr(module, "scheme", None), "kernel", None)
        if kernel is not None:
            a8 = " w4a8" if getattr(module, "use_w4a8", False) else ""
            found.add(type(kernel).__name__ + a8)
    return ", ".join(sorted(found))


def check(report: dict[str, Any], spec: CacheSpec) -> None:
    """A number counts only if every layer stores what the spec says: void the run otherwise."""
    for number, layer in enumerate(report["layers"]):
        own = spec.of_layer(number)
        runs = (layer["impl"], layer.get("key"), layer.get("value"))
        if runs != ("KvantImpl", own.key.name, own.value.name):
            raise EngineError(
                f"layer {number} ({layer['name']}) runs {', '.join(map(str, runs))}, "
                f"not {own.name}: its fidelity would be that of another cache"
            )
        size = own.layout(layer["head_dim"], layer["kv_heads"]).bytes_per_token_head
        if layer["bytes_per_token_head"] != size:
            raise EngineError(
                f"layer {number} stores {layer['bytes_per_token_head']} bytes, {own.name} {size}"
            )
        if layer["exact"] != [own.sinks, own.window]:
            raise EngineError(
                f"layer {number} keeps {layer['exact']} sinks and recent tokens in 16 bits, "
                f"not {[own.sinks, own.window]}"
            )
