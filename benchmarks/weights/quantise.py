"""A model folder with its linear layers rounded to int8 or int4, as vLLM loads it.

Round to nearest, no calibration: what is left of the model is a lower bound of what GPTQ or AWQ would leave.

int8   "W8A8": one scale for each output channel; activations int8, one scale a token
int4   "W4A16": one scale for each 32 inputs of a channel; activations as they come

Embeddings, head and norms stay as they are, so that distributions of both models come from one head.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import load_file, save_file

from kvant.models import manifest, resolve

GROUP = 32
LINEAR = re.compile(r"\.layers\.\d+\..*_proj\.weight$")
COPIED = {".json", ".jinja", ".model", ".txt", ".md", ".html"}

WEIGHTS: dict[str, dict[str, Any]] = {
    "int8": {"num_bits": 8, "strategy": "channel"},
    "int4": {"num_bits": 4, "strategy": "group", "group_size": GROUP},
}
ACTIVATIONS = {"int8": {"num_bits": 8, "strategy": "token", "dynamic": True}, "int4": None}
FORMAT = {"int8": "int-quantized", "int4": "pack-quantized"}


def rounded(weight: torch.Tensor, bits: int, group: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes int8 (out, in) and bf16 scales (out, in / group): nearest, symmetric, the largest at the end.

    Four bits end at 7.5 steps, as compressed-tensors has it: -8 is a code too, and 7 takes a half step more.
    """
    grouped = weight.float().unflatten(1, (-1, group))
    end = 127 if bits == 8 else 7.5
    scale = (grouped.abs().amax(-1, keepdim=True) / end).clamp_min(1e-10).bfloat16()
    lowest = -(2 ** (bits - 1))
    codes = (grouped / scale.float()).round().clamp(lowest, -lowest - 1)
    return codes.flatten(1).to(torch.int8), scale[..., 0]


def tensors(name: str, weight: torch.Tensor, kind: str) -> dict[str, torch.Tensor]:
    """What the file holds in place of one weight (out, in)."""
    bits = WEIGHTS[kind]["num_bits"]
    codes, scale = rounded(weight, bits, weight.shape[1] if kind == "int8" else GROUP)
    if kind == "int8":
        return {name: codes, f"{name}_scale": scale}
    packed = pack_to_int32(codes, bits)
    return {f"{name}_packed": packed, f"{name}_scale": scale, f"{name}_shape": torch.tensor(weight.shape)}


def section(kind: str) -> dict[str, Any]:
    """`quantization_config` of config.json."""
    common = {"type": "int", "symmetric": True}
    activations = ACTIVATIONS[kind]
    group = {
        "targets": ["Linear"],
        "weights": common | WEIGHTS[kind],
        "input_activations": activations and common | activations,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": FORMAT[kind],
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": group},
    }


def quantise(source: Path, target: Path, kind: str) -> str:
    """Write the folder under another name and rename it; returns its digest."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix in COPIED and file.name != manifest.NAME and not file.name.endswith(".index.json"):
            shutil.copy(file, partial)
    found: dict[str, torch.Tensor] = {}
    for file in sorted(source.glob("*.safetensors")):
        for name, weight in load_file(file).items():
            found |= tensors(name, weight, kind) if LINEAR.search(name) else {name: weight}
    save_file(found, partial / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text()) | {"quantization_config": section(kind)}
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    partial.rename(target)
    return manifest.create(target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bits", choices=WEIGHTS, default="int8")
    given = parser.parse_args()
    source = resolve(given.model)
    if not isinstance(source, Path):
        parser.error(f"{given.model} is no packaged model and no folder")
    if given.folder.exists():
        parser.error(f"{given.folder} is there already")
    print(given.folder, quantise(source, given.folder, given.bits))


if __name__ == "__main__":
    main()
