"""Is attention as fast as this machine allows, and do codes make the first token late?"""

from __future__ import annotations

from collections.abc import Iterator

from kvant.doctor.finding import Finding, ok, unknown, warn
from kvant.doctor.registry import service_check
from kvant.doctor.running.load import Load
from kvant.doctor.running.patient import Patient
from kvant.errors import KernelError
from kvant.launch.service import Service
from kvant.telemetry.scrape import Scrape

ATTENTION, FIRST = "attention", "first token"
SLOW_SHARE = 0.6
"""Of a step, at some thousand tokens of context: more than a sound kernel takes beside the model itself."""
ENCODING = 0.3
"""Share of prefill from which on encoding, not the model, makes the first token late."""
QUEUED = 0.5


@service_check
def attention(patient: Patient) -> Iterator[Finding]:
    scrape = patient.scrape
    if scrape is None:
        yield unknown(ATTENTION, patient.lacks("/metrics"))
        return
    kernel = scrape.labels("kvant_build_info").get("kernel", "")
    if isinstance(patient.load, str):
        share, when = _ever(scrape, "attend"), " since it was started"
    else:
        share, when = _share(patient.load, "attend"), ""
    if not kernel or share is None:
        yield unknown(ATTENTION, "no kvant_build_info and kvant_model_seconds_total: is this `kvant serve`?")
        return
    said = f"kernel {kernel}, {share:.0%} of the steps' time{when}"
    if kernel == "vllm":
        yield warn(ATTENTION, f"{said}: vLLM's own 16-bit attention runs", "kv_cache.enable_quant: true")
    elif not (isinstance(patient.service, Service) and patient.service.local):
        yield unknown(ATTENTION, f"{said}; which kernels its processor could run is not measurable from here")
    else:
        yield path(kernel, said, share)


def path(kernel: str, said: str, share: float) -> Finding:
    """The kernel that runs against the best of this processor."""
    from kvant.kernels import select

    try:
        best = select()[0].name
        reason = "" if best == kernel else select(kernel)[1]
    except KernelError as error:
        return unknown(ATTENTION, f"{said}; {error}")
    if best != kernel:
        return warn(
            ATTENTION,
            f"{said}: the slow path; {best} could run here ({reason})",
            "`kvant doctor`; restart it on this machine, without a virtual machine or emulation that hides "
            "instructions, and rebuild (make setup)",
        )
    if share > SLOW_SHARE:
        return warn(
            ATTENTION,
            f"{said}, though it is the best path here",
            "`kvant bench attention` holds it against vLLM",
        )
    return ok(ATTENTION, f"{said}, the best path of this processor")


@service_check
def first_token(patient: Patient) -> Iterator[Finding]:
    if isinstance(patient.load, str):
        yield unknown(FIRST, patient.lacks("the load"))
        return
    load = patient.load
    share = _share(load, "encode", prefill=True)
    waited, first = (
        load.before.scrape.mean(f"vllm:{name}_seconds")
        for name in ("request_queue_time", "time_to_first_token")
    )
    said = f"{load.first_token:.2f} s for {load.prompt:,} tokens alone"
    if share is None:
        yield unknown(FIRST, f"{said}; no kvant_model_seconds_total: the share of encoding is not known")
        return
    said += f", of which encoding takes {share:.0%}"
    if share > ENCODING:
        yield warn(
            FIRST,
            f"{said}: the codes are dear to write",
            "cheaper codes: --preset int8, or codec: codebook",
        )
    elif waited is not None and first and waited / first > QUEUED:
        yield warn(
            FIRST,
            f"{said}; of its traffic's {first:.2f} s on average {waited:.2f} are spent in the queue: "
            "load, not the cache",
            "more replicas, or fewer requests at once (serving.max_concurrency)",
        )
    else:
        yield ok(FIRST, said)


def _share(load: Load, part: str, prefill: bool = False) -> float | None:
    """Of the model's seconds; of the long prompt alone, which is nearly all prefill, or of the whole load."""
    end = load.warm if prefill else load.after
    step = end.scrape.since(load.before.scrape, "kvant_model_seconds_total", part="step")
    spent = end.scrape.since(load.before.scrape, "kvant_model_seconds_total", part=part)
    return spent / step if step and spent is not None else None


def _ever(scrape: Scrape, part: str) -> float | None:
    """Of all that it has computed, its own start included."""
    step, spent = (scrape.total("kvant_model_seconds_total", part=one) for one in ("step", part))
    return spent / step if step and spent is not None else None
