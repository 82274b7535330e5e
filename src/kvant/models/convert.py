"""Turn one GGUF file into a model folder that vLLM and transformers load: `python -m kvant.models.convert`.

Runs in a process of its own, because it fills memory with 32-bit weights and because torch and
transformers must not be imported by whoever pulls. Knows nothing of packages, locks or manifests.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any


def convert(gguf: Path, folder: Path, *, add_bos: bool) -> None:
    """Write `gguf` as bf16 safetensors with its tokenizer and generation config into `folder`.

    add_bos: the tokenizer puts its BOS token before every text, as the file says in
    tokenizer.ggml.add_bos_token (which transformers ignores, and which is slow to read).
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **source)
    model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.bfloat16, **source)
    _forget_quantisation(model)
    _carry_token_ids(tokenizer, model)
    if add_bos:
        tokenizer.add_bos_token = True
    for name in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(name, None)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(str(folder), safe_serialization=True)
    tokenizer.save_pretrained(str(folder))


def _forget_quantisation(model: Any) -> None:
    # transformers has already expanded the weights; with these left in place it would save a folder
    # that claims to be quantised and that no loader accepts.
    model.hf_quantizer = None
    model.quantization_method = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _carry_token_ids(tokenizer: Any, model: Any) -> None:
    # A GGUF file keeps these in the tokenizer only; servers stop at the ids of the generation config.
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        value = getattr(tokenizer, name)
        if value is not None:
            setattr(model.config, name, value)
            setattr(model.generation_config, name, value)


def end_with(parent: int) -> None:
    """End this process when `parent`, which alone could use the result, is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="kvant.models.convert", description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--add-bos", action="store_true")
    arguments = parser.parse_args(argv)
    end_with(os.getppid())
    convert(arguments.gguf, arguments.folder, add_bos=arguments.add_bos)
    return 0


if __name__ == "__main__":
    sys.exit(main())
