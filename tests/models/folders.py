"""Small model folders on disk, whole but without meaning: what manifests and headers are tested on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def write(folder: Path, shards: int = 1) -> Path:
    """A config, a tokenizer and `shards` safetensors files (with an index if there are several)."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    names = [f"model-{n + 1:05}-of-{shards:05}.safetensors" for n in range(shards)]
    if shards == 1:
        names = ["model.safetensors"]
    for number, name in enumerate(names):
        rng = np.random.default_rng(number)
        tensors = {f"layer.{number}.{part}": rng.standard_normal((16, 8)).astype("f4") for part in "kv"}
        save_file(tensors, folder / name)
    if shards > 1:
        index = {"weight_map": {f"layer.{n}.k": name for n, name in enumerate(names)}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
