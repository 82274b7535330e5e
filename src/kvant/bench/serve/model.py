"""What the comparison must know of a model: its length, its vocabulary and what a token costs in bf16."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from kvant.errors import ModelError
from kvant.models import resolve


@dataclass(frozen=True)
class Model:
    """A model folder; `bytes_per_token` is what stock vLLM stores of one token, over all layers."""

    folder: Path
    max_length: int
    vocabulary: int
    bytes_per_token: int
    weight_bytes: int


def look(name: str) -> Model:
    """Read a packaged model or a model folder; `ModelError` for a hub id, or what config.json lacks."""
    folder = resolve(name)
    if not isinstance(folder, Path):
        raise ModelError(
            f"--model: {name!r} is a hub id, and this bench sizes both servers from a model folder: "
            "download the model and give its folder"
        )
    file = folder / "config.json"
    try:
        top = json.loads(file.read_text())
        config = top.get("text_config", top)
        heads = config["num_attention_heads"]
        head_dim = config.get("head_dim") or config["hidden_size"] // heads
        kv_heads = config.get("num_key_value_heads") or heads
        return Model(
            folder=folder,
            max_length=config["max_position_embeddings"],
            vocabulary=config["vocab_size"],
            bytes_per_token=2 * config["num_hidden_layers"] * kv_heads * head_dim * 2,
            weight_bytes=sum(path.stat().st_size for path in folder.glob("*.safetensors")),
        )
    except OSError as error:
        raise ModelError(f"{file} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ModelError(f"{file} is not JSON: {error}") from error
    except KeyError as error:
        raise ModelError(f"{file} has no {error}, from which this bench sizes both servers") from error
