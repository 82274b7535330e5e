"""A model folder, its config.json alone, or a shape given by hand -> `Model`."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from kvant.errors import ConfigError
from kvant.models.manifest import WEIGHTS
from kvant.plan import families, parameters
from kvant.plan.config_json import Fields, read
from kvant.plan.families import MOST_LAYERS, head_dim
from kvant.plan.geometry import HALF, Experts, Layer, Model, alike

CONFIG = "config.json"
NOT_COUNTED = ("vision_config", "audio_config")
"""Towers beside the language model: their sizes are of families of their own."""
SHAPE = ("layers", "kv_heads", "head_dim", "parameters", "window", "every", "heads", "hidden", "intermediate",
         "vocabulary", "max_context")  # fmt: skip
"""What --shape understands; the first four are needed."""


def of_path(path: Path, weight_bytes: int | None = None) -> Model:
    """The model of a folder, or of a config.json that lies without its weights."""
    file = path / CONFIG if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"{path}: has no {CONFIG}; give a model folder, a {CONFIG}, or --shape")
    outer = read(file)
    # Models with images keep what their language model is in an object of its own.
    fields = outer.inner("text_config") or outer
    if fields.get("model_type") is None and fields is not outer:
        fields = fields.with_defaults({"model_type": outer.get("model_type")})
    family = families.find(fields)
    named = {"model_type": fields.get("model_type")}
    fields = fields.with_defaults(family.defaults | named)
    counted, experts = parameters.count(fields, family) if family.counted else (0, None)
    folder = path if path.is_dir() else None
    size, source = _weights(outer, fields, folder, counted, weight_bytes)
    heads = fields.whole("num_attention_heads")
    return Model(
        name=(folder or file.with_suffix("")).absolute().name,
        layers=family.layers(fields),
        hidden=fields.whole("hidden_size"),
        intermediate=_widest(fields, experts),
        heads=heads,
        head_dim=fields.whole("v_head_dim") if fields.get("kv_lora_rank") else head_dim(fields),
        vocabulary=fields.whole("vocab_size"),
        max_context=fields.whole("max_position_embeddings"),
        parameters=counted or size // HALF,
        weight_bytes=size,
        weights_from=source,
        experts=experts,
    )


def _widest(fields: Fields, experts: Experts | None) -> int:
    """Numbers between the two halves of an MLP, of all experts that a token asks."""
    each = fields.get("intermediate_size")
    if isinstance(each, list) and each and all(type(one) is int for one in each):
        widest: int = max(each)  # Gemma 3n has one for each layer
        return widest
    dense = fields.whole("intermediate_size")
    width = fields.whole("moe_intermediate_size", dense)
    return max(dense, experts.chosen * width) if experts else dense


def of_shape(text: str, weight_bytes: int | None = None) -> Model:
    """`layers=36,kv_heads=8,head_dim=128,parameters=4e9`; every=6 leaves the window off one layer in six."""
    given: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in SHAPE:
            close = difflib.get_close_matches(name, SHAPE, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ConfigError(f"--shape: {name!r} is no part of a shape; {hint}known: {', '.join(SHAPE)}")
        try:
            number = float(value)
        except ValueError:
            number = -1
        if not 0 < number < 1e15 or number != int(number):
            raise ConfigError(f"--shape: {name}={value}: expected a whole number above 0")
        given[name] = int(number)
    if given.get("layers", 0) > MOST_LAYERS:
        raise ConfigError(f"--shape: layers={given['layers']}: expected at most {MOST_LAYERS:,}")
    if missing := [name for name in SHAPE[:4] if name not in given]:
        raise ConfigError(
            f"--shape: {', '.join(missing)} missing: layers=36,kv_heads=8,head_dim=128,parameters=4e9"
        )
    count, heads, dim = given["layers"], given.get("heads", given["kv_heads"]), given["head_dim"]
    every, window = given.get("every", 0), given.get("window", 0)
    full, local = Layer(given["kv_heads"], dim), Layer(given["kv_heads"], dim, window)
    layers = tuple(full if every and (n + 1) % every == 0 else local for n in range(count))
    hidden = given.get("hidden", heads * dim)
    return Model(
        name="shape",
        layers=layers if window else alike(count, full),
        hidden=hidden,
        intermediate=given.get("intermediate", 4 * hidden),
        heads=heads,
        head_dim=dim,
        vocabulary=given.get("vocabulary", 131_072),
        max_context=given.get("max_context", 131_072),
        parameters=given["parameters"],
        weight_bytes=weight_bytes or given["parameters"] * HALF,
        weights_from="--weights-gib" if weight_bytes else "parameters in 16 bits",
    )


def _weights(
    outer: Fields, fields: Fields, folder: Path | None, counted: int, given: int | None
) -> tuple[int, str]:
    if given:
        return given, "--weights-gib"
    files = [one for one in folder.iterdir() if one.suffix in WEIGHTS] if folder else []
    suffix = ".safetensors"  # where a folder has both, vLLM loads these
    files = [one for one in files if one.suffix == suffix] or files
    if files:
        return sum(one.stat().st_size for one in files), f"{len(files)} file{'s' * (len(files) > 1)}"
    if not counted:
        raise fields.wrong(
            "model_type", "its parameters are not counted here; give --weights-gib, or its weights"
        )
    bits, why = _bits(outer, fields)
    source = f"counted, in {bits:g} bits, {why}"
    if beside := [name for name in NOT_COUNTED if outer.inner(name)]:
        source += f"; text only, without {' and '.join(beside)}: --weights-gib gives the size of all"
    return int(counted * bits / 8), source


def _bits(outer: Fields, fields: Fields) -> tuple[float, str]:
    quantised = outer.inner("quantization_config") or fields.inner("quantization_config")
    if quantised is None:
        dtype: Any = outer.get("dtype") or outer.get("torch_dtype") or fields.get("dtype") or "bfloat16"
        return (32, "float32") if dtype == "float32" else (16, str(dtype))
    method = quantised.get("quant_method")
    if method == "fp8":
        return 8, "fp8"
    if method in ("awq", "gptq"):
        bits = quantised.whole("bits")
        return bits + 0.25, f"{method}, with scales of groups of 128 or so"
    raise outer.wrong(
        "quantization_config",
        f"a plan cannot tell the size of weights quantised by {method!r}; give --weights-gib, or the folder "
        "with its weights",
    )
