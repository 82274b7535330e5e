"""Rules between fields: each is a function that names every field its verdict depends on.

To add a rule: write a generator of `Contradiction` here, put it into one of the tables at the end, and
add a failing and a passing case to tests/config/test_rules.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvant.config.engine_options import owned
from kvant.config.kv_cache import FORMAT_FIELDS, QUANT_FIELDS, KVCache
from kvant.config.serving import is_loopback

if TYPE_CHECKING:
    from kvant.config.settings import Settings


@dataclass(frozen=True)
class Contradiction:
    """`field` cannot be what it is because of `others`; all are dotted names."""

    field: str
    reason: str
    others: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        return (self.field, *self.others)

    def under(self, section: str) -> Contradiction:
        """The same where the settings are a section of a larger file; "" is the file itself."""
        names = [f"{section}.{name}" if section else name for name in self.fields]
        return replace(self, field=names[0], others=tuple(names[1:]))


class Contradictions(ValueError):
    """What `Settings` raises inside pydantic; `kvant.config.load` turns it into a ConfigError."""

    def __init__(self, found: list[Contradiction]) -> None:
        super().__init__("; ".join(f"{c.field} {c.reason}" for c in found))
        self.found = found


Found = Iterator[Contradiction]
SIDES = ("key", "value")


def _explicit(section: KVCache, name: str) -> bool:
    """True for a field that was written down and says something, and something else than the default."""
    value, default = getattr(section, name), type(section).model_fields[name].default
    return name in section.model_fields_set and value is not None and value != default


def unquantised_has_no_codec(s: Settings) -> Found:
    """With `enable_quant: false` no field of the codec may be changed."""
    for name in QUANT_FIELDS:
        if _explicit(s.kv_cache, name):
            yield Contradiction(
                f"kv_cache.{name}",
                "has no meaning for a cache that is not quantised; drop it, or set enable_quant: true",
                ("kv_cache.enable_quant",),
            )


def one_choice_of_formats(s: Settings) -> Found:
    """`preset`, `recipe` and fields that name formats exclude each other; a recipe has its `skip_layers`."""
    cache = s.kv_cache
    rest: tuple[str, ...]
    if cache.recipe is not None:
        chosen, rest = "recipe", ("preset", *FORMAT_FIELDS, "skip_layers")
    elif cache.preset is not None:
        chosen, rest = "preset", FORMAT_FIELDS
    else:
        return
    for name in rest:
        # The default preset may be written out, but not beside a recipe.
        if _explicit(cache, name) or (name == "preset" and cache.preset is not None):
            yield Contradiction(
                f"kv_cache.{name}",
                f"is said by the {chosen} already; drop one of the two",
                (f"kv_cache.{chosen}",),
            )


def codec_has_the_width(s: Settings) -> Found:
    """`int` has 8 and 4 bits, `codebook` and `trellis` 4 to 2, `polar` is written as 4; `auto` all and 16."""
    cache = s.kv_cache
    widths = {
        "auto": (2, 3, 4, 8, 16),
        "int": (4, 8),
        "codebook": (2, 3, 4),
        "polar": (4,),
        "trellis": (2, 3, 4),
    }[cache.codec]
    for side in SIDES:
        bits = cache.bits(side)
        if bits in widths:
            continue
        if cache.codec == "int" and bits < 4:
            mend = "did you mean codec: codebook?"
        elif bits == 16 or (cache.codec in ("codebook", "trellis") and bits == 8):
            mend = f"did you mean codec: auto, or {side}_bits: {max(widths)}?"
        else:
            mend = f"did you mean {side}_bits: {min(widths, key=lambda w: abs(w - bits))}?"
        allowed = " or ".join(map(str, widths))
        yield Contradiction(
            f"kv_cache.{side}_bits", f"must be {allowed} with this codec; {mend}", ("kv_cache.codec",)
        )


def residual_needs_codebook_keys(s: Settings) -> Found:
    """`key_residual_bits: 1` needs codebook keys with a 16-bit scale."""
    cache = s.kv_cache
    if not cache.key_residual_bits:
        return
    others = ("kv_cache.codec", "kv_cache.key_bits")
    if cache.codec_of(cache.bits("key")) != "codebook":
        yield Contradiction(
            "kv_cache.key_residual_bits",
            "needs keys in a codebook of 2, 3 or 4 bits; did you mean key_bits: 3, codec: auto?",
            others,
        )
    elif cache.scale == "byte":
        yield Contradiction(
            "kv_cache.key_residual_bits",
            "is stored beside a 16-bit scale only; did you mean scale: bf16?",
            (*others, "kv_cache.scale"),
        )


def codebooks_need_rotation(s: Settings) -> Found:
    """`rotate_enable: false` excludes codebook, polar and trellis."""
    cache = s.kv_cache
    if cache.rotate_enable is not False:
        return
    for side in SIDES:
        if cache.codec_of(cache.bits(side)) in ("codebook", "polar", "trellis"):
            yield Contradiction(
                "kv_cache.rotate_enable",
                "contradicts the codec: codebook, polar and trellis are made for rotated vectors; "
                "leave it out, or did you mean codec: int?",
                ("kv_cache.codec", f"kv_cache.{side}_bits"),
            )
            return


def asymmetric_needs_int(s: Settings) -> Found:
    """`asymmetric: true` needs `codec: int`."""
    if s.kv_cache.asymmetric and s.kv_cache.codec != "int":
        yield Contradiction(
            "kv_cache.asymmetric", "is for integers only; did you mean codec: int?", ("kv_cache.codec",)
        )


def byte_scale_needs_codebook(s: Settings) -> Found:
    """`scale: byte` needs a codebook for keys or values."""
    cache = s.kv_cache
    if cache.scale == "byte" and not any(cache.codec_of(cache.bits(side)) == "codebook" for side in SIDES):
        yield Contradiction(
            "kv_cache.scale",
            "is the scale of a codebook, and neither keys nor values use one; "
            "did you mean scale: bf16, or key_bits and value_bits of 2, 3 or 4?",
            ("kv_cache.codec", "kv_cache.key_bits", "kv_cache.value_bits"),
        )


def one_size_of_the_cache(s: Settings) -> Found:
    """`max_cache_blocks` and `memory_gib` exclude each other."""
    if s.kv_cache.max_cache_blocks is not None and s.kv_cache.memory_gib is not None:
        yield Contradiction(
            "kv_cache.max_cache_blocks",
            "states the size of the cache a second time; keep one of the two",
            ("kv_cache.memory_gib",),
        )


def metrics_port_is_another(s: Settings) -> Found:
    """`metrics_port` differs from `serving.port`."""
    if s.monitoring.metrics_port == s.serving.port:
        yield Contradiction(
            "monitoring.metrics_port",
            "is taken by the API, which serves /metrics as well; set it to null, or choose another port",
            ("serving.port",),
        )


def remote_is_guarded(s: Settings) -> Found:
    """A `serving.host` other than loopback needs `security.allow_remote: true` and an `api_key_file`."""
    if is_loopback(s.serving.host):
        return
    if not s.security.allow_remote:
        yield Contradiction(
            "serving.host",
            "lets other machines connect; set security.allow_remote: true and security.api_key_file, "
            "or host: 127.0.0.1",
            ("security.allow_remote",),
        )
    elif s.security.api_key_file is None:
        yield Contradiction(
            "serving.host",
            "lets other machines connect without a key; set security.api_key_file, or host: 127.0.0.1",
            ("security.api_key_file",),
        )


def engine_options_are_not_ours(s: Settings) -> Found:
    """Options that Kvant sets itself are refused under `engine`, with the field to use instead."""
    for name, message in owned(s.engine):
        yield Contradiction(f"engine.{name}", message)


UNQUANTISED: tuple[Callable[[Settings], Found], ...] = (unquantised_has_no_codec,)
"""Rules for enable_quant: false."""

QUANTISED: tuple[Callable[[Settings], Found], ...] = (
    one_choice_of_formats,
    codec_has_the_width,
    residual_needs_codebook_keys,
    codebooks_need_rotation,
    asymmetric_needs_int,
    byte_scale_needs_codebook,
)
"""Rules for enable_quant: true."""

ALWAYS: tuple[Callable[[Settings], Found], ...] = (
    one_size_of_the_cache,
    metrics_port_is_another,
    remote_is_guarded,
    engine_options_are_not_ours,
)


def contradictions(settings: Settings) -> list[Contradiction]:
    """Every broken rule."""
    rules = (QUANTISED if settings.kv_cache.enable_quant else UNQUANTISED) + ALWAYS
    return [found for rule in rules for found in rule(settings)]
