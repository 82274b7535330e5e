"""A transformers model to calibrate: loaded, probed, or refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvant.errors import CalibrationError
from kvant.models import weights
from kvant.recipes.moments import Moments
from kvant.recipes.observe import Observer
from kvant.recipes.plan import Span


def configuration(folder: Path) -> Any:
    """The text part of config.json; `CalibrationError` for models that no Kvant cache can serve."""
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise _refusal(folder, f"transformers cannot read its configuration: {_first(error)}") from None
    if getattr(config, "is_encoder_decoder", False):
        raise _refusal(folder, "an encoder-decoder model has non-causal attention")
    text = config.get_text_config()
    if getattr(text, "kv_lora_rank", None):
        raise _refusal(folder, "multi-head latent attention (MLA) stores no per-head keys and values")
    return text


def tokenizer(folder: Path) -> Any:
    """Its tokenizer."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise _refusal(folder, f"its tokenizer cannot be loaded: {_first(error)}") from None


def observer(folder: Path, device: str, trial: Callable[[], Span]) -> Observer:
    """The model, watched, with empty moments, after all its layers were seen in a short trial."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    dtype: Any = torch.bfloat16 if device != "cpu" or torch.cpu._is_avx512_bf16_supported() else torch.float32
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            **weights.reading(folder),
        ).to(device)
        watched = Observer(model.eval(), Moments({}))
        watched.read(trial())
    except CalibrationError as error:
        raise _refusal(folder, str(error)) from None
    except Exception as error:  # whatever a model's own code raises is the reason
        raise _refusal(folder, f"transformers cannot run it: {_first(error)}") from error
    layers = range(model.config.get_text_config().num_hidden_layers)
    unseen = sorted(set(layers) - watched.moments.owners.keys())
    if unseen:
        which = "its attention" if len(unseen) == len(layers) else f"the attention of layers {unseen}"
        raise _refusal(folder, f"{which} does not go through transformers' attention interface")
    shapes = {layer.key.shape for layer in watched.moments.layers.values()}
    if len(shapes) > 1:
        raise _refusal(folder, f"its layers differ in shape: (KV heads, head_dim) {sorted(shapes)}")
    watched.moments = Moments({})
    return watched


def _refusal(folder: Path, reason: str) -> CalibrationError:
    return CalibrationError(f"{folder.name} cannot be calibrated: {reason}")


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
