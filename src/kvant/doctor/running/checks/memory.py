"""Does a token take the memory that its format should take, and nothing beside?"""

from __future__ import annotations

from collections.abc import Iterator

from kvant.config import Settings
from kvant.doctor.finding import Finding, fail, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.load import Load
from kvant.doctor.running.patient import Patient
from kvant.errors import FormatError
from kvant.formats import parse
from kvant.recipes import preset
from kvant.telemetry.scrape import Scrape

WHAT = "memory"
HEADS = (64, 128, 256)
TOLERANCE = 0.02
SLACK = 64 << 20
"""Bytes that buffers may still grow by: vLLM's do for minutes."""
COPY = 0.8
"""Of the bytes that a second copy in 16 bits would take."""


@service_check
def memory(patient: Patient) -> Iterator[Finding]:
    scrape = patient.scrape
    if scrape is None:
        yield unknown(WHAT, patient.lacks("/metrics"))
        return
    bits, token = scrape.total("kvant_effective_bits"), scrape.total("kvant_cache_bytes_per_token")
    if not bits or not token:
        yield unknown(WHAT, "no kvant_cache_bytes_per_token on /metrics: is this `kvant serve`?")
        return
    yield from meant(patient.settings, scrape)
    yield stored(scrape.labels("kvant_build_info").get("formats", ""), bits, token)
    if isinstance(patient.load, str):
        yield unknown(f"{WHAT} (copies)", patient.lacks("the load"))
    else:
        yield copies(patient.load, token, token * 16 / bits)


def meant(settings: Settings | None, scrape: Scrape) -> Iterator[Finding]:
    """Against the configuration, where one is given."""
    if settings is None:
        return
    cache, build = settings.kv_cache, scrape.labels("kvant_build_info")
    runs, named = build.get("formats", ""), build.get("preset", "")
    if not cache.enable_quant or cache.recipe:
        return
    if cache.preset:
        one = preset.find(cache.preset)
        wanted = f"{one.key}/{one.value}"
    else:
        wanted = f"{cache.key_format}/{cache.value_format}"
    if runs.replace(" ", "").startswith(wanted):
        return
    why = f"{wanted} is configured, and {runs or 'nothing packed'} runs"
    fell = cache.preset and named and named != cache.preset
    yield fail(
        f"{WHAT} (bits)",
        why + (f": {named} took the place of {cache.preset}" if fell else ": another file was started"),
        "calibrate once (`kvant calibrate MODEL`), its start-up table says why; or restart with this file",
    )


def stored(formats: str, bits: float, token: float) -> Finding:
    """Bits of an element against those of the formats that the service names."""
    said = f"{token:,.0f} bytes a token, {bits:.2f} bits an element, {16 / bits:.2f} times less than 16 bits"
    if "stock" in formats or not formats:
        return warn(
            WHAT,
            f"{said}: the cache is not quantised ({formats})",
            "kv_cache.enable_quant: true, and a preset",
        )
    key, _, value = formats.partition("/")
    try:
        sides = parse(key, "key"), parse((value or key).split(" ")[0], "value")
    except FormatError:
        return unknown(WHAT, f"{said}; what {formats} should take is not known here")
    least, most = (
        pick(sum(side.bits_per_value(head) for side in sides) / 2 for head in HEADS) for pick in (min, max)
    )
    if bits > most * (1 + TOLERANCE):
        return warn(
            WHAT,
            f"{said}; {formats} takes {least:.2f} to {most:.2f}: layers in 16 bits or wider, or pages "
            "are padded",
            "look at kv_cache.skip_layers and at the recipe's layers; `kvant plan MODEL` counts them",
        )
    return ok(WHAT, f"{said}, as {formats} should")


def copies(load: Load, token: float, token16: float) -> Finding:
    """Pages are made when the service starts: whatever grows with the tokens written is a second copy."""
    what = f"{WHAT} (copies)"
    before, after = load.warm.resident, load.after.resident
    if before is None or after is None:
        return unknown(what, "the memory of its processes is not visible here (another machine or user)")
    names = ("vllm:prompt_tokens_total", "vllm:generation_tokens_total")
    written = sum(load.after.scrape.since(load.warm.scrape, name) or 0.0 for name in names)
    if not written:
        return unknown(what, "no token was written meanwhile")
    grown = after - before
    said = f"{grown / 2**20:+.0f} MiB resident while {written:,.0f} tokens were written"
    if grown > SLACK and grown > COPY * written * token16:
        return fail(
            what,
            f"{said}, {grown / written:,.0f} bytes a token beside the {token:,.0f} of its page (16 bits are "
            f"{token16:,.0f}): keys and values are kept a second time",
            "look for hooks, connectors or plugins that hold keys and values; serve without them",
        )
    if written * token16 < SLACK:
        return unknown(what, f"{said}: too few to tell a 16-bit copy from noise")
    return ok(what, f"{said}: no second copy of them")
