"""How transformers is to read the weights of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def reading(folder: Path | str) -> dict[str, Any]:
    """Arguments of `from_pretrained` for a folder whose weights are quantised (compressed-tensors).

    They are read as the numbers that their codes stand for. transformers would otherwise undo the codes
    at the first call of the whole model, and whoever calls its body alone gets the codes themselves.
    What the codes leave out, the rounding of activations to int8, is not done.
    """
    config = Path(folder) / "config.json"
    if not config.is_file():
        return {}
    found = json.loads(config.read_bytes()).get("quantization_config") or {}
    if found.get("quant_method") != "compressed-tensors":
        return {}
    from transformers import CompressedTensorsConfig

    return {"quantization_config": CompressedTensorsConfig(dequantize=True)}
