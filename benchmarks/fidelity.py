"""How far each format moves a model's predictions, through the real engine, pages and kernels.

    python benchmarks/fidelity.py --json benchmarks/results/fidelity.json

Teacher-forced: a text of 2,048 tokens goes through vLLM as one prompt; the last hidden state of every
position gives the full distribution of the next token. Every format is compared, position by
position, with the 16-bit control through the same kernels: KL divergence (nats) with its standard
error over positions, top-1 agreement, and the change of perplexity. Positions before --skip are not
scored. Each configuration runs in a process of its own; the file is written anew after each.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from texts import TEXTS

from kvant.bench.machine import describe
from kvant.cache import CacheSpec
from kvant.formats import parse

CONTROL = "bf16/bf16"
STOCK = "stock"  # vLLM's own cache and kernel: the noise floor of 16-bit arithmetic
FORMATS = (
    CONTROL,
    STOCK,
    "int8/int8",
    "int8/int8+rotate",
    "int8-asym/int8-asym",
    "int4/int4",
    "int4/int4+rotate",
    "int4-asym/int4-asym",
    "codebook4/codebook4",
    "codebook3/codebook3",
    "codebook2/codebook2",
    "codebook3+jl/codebook4",
    "polar/polar",
)
MODELS = ("smollm2-135m-instruct", "qwen2.5-coder-0.5b-instruct")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--format", action="append", help="KEY/VALUE, with +rotate to rotate an int format")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--skip", type=int, default=1088, help="positions that are not scored")
    parser.add_argument(
        "--threads", default=f"0-{len(os.sched_getaffinity(0)) - 1}", help="cores, as vLLM binds"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(json.loads(args.child))
        return
    result = environment(args)  # of the tree that is measured, not of one edited meanwhile
    rows = result["rows"]
    for model in args.model or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            for name in (CONTROL, *(f for f in args.format or FORMATS if f != CONTROL)):
                job = {
                    "model": model,
                    "format": name,
                    "tokens": args.tokens,
                    "skip": args.skip,
                    "folder": folder,
                    "threads": args.threads,
                }
                rows += run(job)
                for row in rows[-len(TEXTS) :]:
                    print(
                        f"{row['model']:30} {row['format']:26} {row['text']:8}"
                        f" {row['effective_bits']:6.3f} bits"
                        f"  KL {row['kl']:.4f} +- {row['kl_se']:.4f}  top-1 {row['top1']:.3f}"
                        f"  perplexity {row['dppl']:+.2%}",
                        flush=True,
                    )
                if args.json:
                    args.json.parent.mkdir(parents=True, exist_ok=True)
                    args.json.write_text(json.dumps(result, indent=1) + "\n")


def environment(args: argparse.Namespace) -> dict[str, Any]:
    """What the numbers were measured with; their rows are still to come."""
    result = describe()
    result["versions"]["transformers"] = version("transformers")
    result["versions"]["python"] = platform.python_version()  # the texts are Python's own
    return result | {"tokens": args.tokens, "skip": args.skip, "threads": args.threads, "rows": []}


def run(job: dict[str, Any]) -> list[dict[str, Any]]:
    env = os.environ | {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": job["threads"],
        "VLLM_LOGGING_LEVEL": "ERROR",
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, __file__, "--child", json.dumps(job)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{job['model']} with {job['format']} failed:\n{done.stderr[-4000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def spec_of(name: str) -> CacheSpec:
    """`KEY/VALUE`: rotated where a format needs it; `KEY/VALUE+rotate`: rotated in any case."""
    key, value = name.removesuffix("+rotate").split("/")
    rotate = name.endswith("+rotate") or parse(key).needs_rotation or parse(value).needs_rotation
    return CacheSpec.from_json({"key": key, "value": value, "rotate": rotate})


def child(job: dict[str, Any]) -> None:
    """One configuration: both texts, scored against the control's saved hidden states."""
    import numpy as np
    import torch
    from vllm import LLM, SamplingParams

    from kvant.models import resolve

    name = job["format"]
    spec = spec_of(CONTROL if name == STOCK else name)
    ours = {"attention_backend": "CUSTOM", "additional_config": {"kvant": spec.to_json()}}
    llm = LLM(
        model=str(resolve(job["model"])),
        max_model_len=job["tokens"] + 16,
        max_num_batched_tokens=512,
        enforce_eager=True,
        block_size=spec.block_size,
        enable_prefix_caching=False,
        worker_extension_cls="kvant.engine.report.WorkerReport",
        **({} if name == STOCK else ours),
    )
    (report,) = llm.collective_rpc("kvant_report")
    layer = report["layers"][0]
    if name != STOCK and (layer["impl"], layer["key"]) != ("KvantImpl", spec.key.name):
        sys.exit(f"{name} is not what runs: {layer}")
    head_dim = layer.get("head_dim", layer["shape"][-1] // 2)
    hidden: list[torch.Tensor] = []
    (model,) = llm.apply_model(lambda m: m)
    hook = model.register_forward_hook(lambda module, args, output: hidden.append(output.clone()))
    rows = []
    for text, make in TEXTS.items():
        ids = llm.get_tokenizer().encode(make())[: job["tokens"]]
        hidden.clear()
        llm.generate({"prompt_token_ids": ids}, SamplingParams(max_tokens=1), use_tqdm=False)
        states = torch.cat([h[-512:] for h in hidden])[: len(ids)]
        saved = Path(job["folder"]) / f"{text}.npy"
        if job["format"] == CONTROL:
            np.save(saved, states.float().numpy())
        control = torch.from_numpy(np.load(saved)).to(states.dtype)
        rows.append(
            {"model": job["model"], "format": job["format"], "text": text, "n": len(ids) - 1 - job["skip"],
             "kernel": layer.get("kernel", "vLLM's own"), "dtype": str(states.dtype).removeprefix("torch."),
             "effective_bits": spec.layout(head_dim, layer["shape"][1]).effective_bits,
             **score(model, control, states, torch.tensor(ids), job["skip"])}
        )  # fmt: skip
    hook.remove()
    print(json.dumps(rows))


def score(model: Any, control: Any, states: Any, ids: Any, skip: int) -> dict[str, float]:
    """KL, top-1 agreement and perplexity of `states` against `control`, in float64."""
    import torch

    head = model.lm_head.weight.float().T  # in float32: bf16 logits would add a noise of their own
    kls, agreements, losses = [], [], []
    for first in range(skip, len(ids) - 1, 128):
        at = slice(first, min(first + 128, len(ids) - 1))
        p = torch.log_softmax((control[at].float() @ head).double(), -1)
        q = torch.log_softmax((states[at].float() @ head).double(), -1)
        kls.append((p.exp() * (p - q)).sum(-1))
        agreements.append(p.argmax(-1) == q.argmax(-1))
        target = ids[at.start + 1 : at.stop + 1, None]
        losses.append((p - q).gather(1, target)[:, 0])
    kl, agree, loss = torch.cat(kls), torch.cat(agreements).double(), torch.cat(losses)
    return {
        "kl": float(kl.mean()),
        "kl_se": float(kl.std() / len(kl) ** 0.5),
        "kl_p99": float(kl.quantile(0.99)),
        "top1": float(agree.mean()),
        "top1_se": float(agree.std() / len(agree) ** 0.5),
        "dppl": float(loss.mean().exp() - 1),
        "dppl_se": float(loss.std() / len(loss) ** 0.5),
    }


if __name__ == "__main__":
    main()
